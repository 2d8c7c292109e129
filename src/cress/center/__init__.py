"""The center: the shell round core and lifecycle. API, dispatch to executors, the store."""
