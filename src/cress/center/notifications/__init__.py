"""Notifications: what became of jobs, told to the addresses that jobs and groups name (docs/notifications.md)."""
