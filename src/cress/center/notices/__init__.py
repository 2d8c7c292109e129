"""Notices: what became of jobs, told to the addresses that jobs and groups name (docs/notices.md)."""
