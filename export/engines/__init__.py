"""The three ways to put a fused operator into a network: cells, statements, nodes of a MindIR."""
