"""Holds the patterns, the language they are written in, and the search for them in a graph."""
