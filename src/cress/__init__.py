"""Cress: a cluster resource manager and job scheduler."""

__version__ = "0.1.0"
