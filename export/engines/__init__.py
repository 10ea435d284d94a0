"""Puts fused operators into a network by three engines: cells, statements, nodes of a MindIR."""
