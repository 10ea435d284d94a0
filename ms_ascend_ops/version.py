"""The version of the package and of the kernel library built with it. The only place that states it."""

# pip knows it as this.
__version__ = "0.2.0"
