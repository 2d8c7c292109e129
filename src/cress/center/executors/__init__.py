"""Executors: the listener where they connect, those on this machine, and the output of their tasks."""
