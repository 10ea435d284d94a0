"""States the version of the package and of the kernel library built with it. The only place that states it."""

# This is the version that pip shows.
__version__ = "0.2.0"
