"""Requests as jobs: validation, applied families, and leases."""
