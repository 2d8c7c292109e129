"""The center: the programs round core and lifecycle. API, sessions with executors, the store."""
