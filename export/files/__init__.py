"""MindIR files and bundles: writing, checking, loading, another target."""
