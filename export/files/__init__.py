"""Writes, checks and loads MindIR files and bundles, and writes them for another target."""
