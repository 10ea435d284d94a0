"""The patterns, the language they are written in, and looking for them in a graph."""
