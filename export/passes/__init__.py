"""Rewrites of a MindIR besides the patterns: what is constant, products of matrices, layers of one input."""
