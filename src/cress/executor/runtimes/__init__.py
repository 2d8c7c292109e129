"""Runtimes: the ways to run attempts, one file for each, behind the interface in ``base``."""
