"""Attempts: reports of executors about them, and programs that cannot be started."""
