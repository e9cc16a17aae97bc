"""The version, which the build, the command line and stored metadata take from here."""

__all__ = ["__version__"]

__version__ = "0.1.0"
