"""Submits, updates, and dependencies of jobs."""
