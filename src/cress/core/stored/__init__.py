"""The state of a scheduler as stored: fields of jobs, attempts, claims, leases and groups in one struct, and its
versions.
"""
