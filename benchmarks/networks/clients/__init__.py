"""Holds one file for each network. Each contains:

    LABEL                what the network is called in tables
    NEEDS                packages that must be installed
    SIZES                by name: whatever `build` takes
    build(size, dtype)   a Target: the phases of the network's use, and how it is trained

`build` gives the same parameters whenever it is called. A network that comes from elsewhere is taken as it is.
"""
