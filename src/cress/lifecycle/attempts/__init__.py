"""Attempts: what executors report of them, and programs that cannot be started."""
