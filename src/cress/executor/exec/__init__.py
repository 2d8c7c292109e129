"""Commands in running tasks (``cress exec``, checks that are commands)."""
