"""Connections to executors: messages, logs and commands in both directions."""
