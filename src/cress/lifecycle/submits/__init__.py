"""Submits, updates, and jobs that depend on others."""
