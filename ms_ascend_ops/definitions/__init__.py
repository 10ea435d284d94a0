"""Reads and checks definitions of operators, and infers the shapes and dtypes that follow."""
