"""The Python API of the center."""
