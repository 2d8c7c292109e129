"""The center: API, connections to executors, and store, built around the core and the lifecycle."""
