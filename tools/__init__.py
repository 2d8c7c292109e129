"""Tools for working on Cress; not part of the package."""
