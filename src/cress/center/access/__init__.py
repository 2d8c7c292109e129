"""Access to the API: callers, their rights, and the audit log of refused and administrative calls."""
