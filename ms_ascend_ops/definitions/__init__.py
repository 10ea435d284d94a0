"""Definitions of operators: what they say, reading and checking them, and the shapes and dtypes that follow."""
