"""Executors: the listener to which they connect, those on this machine, and the output of their tasks."""
