"""Reads networks as graphs: from cells that run, from MindIR files, and what is known of their values."""
