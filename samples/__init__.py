"""Puts the operators to work: inputs of each, and the same computation without this library.

For benchmarks and tests.
"""
