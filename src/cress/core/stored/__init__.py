"""State of a scheduler as it is kept: fields of jobs, attempts, claims, leases and groups, all as one struct, and its
versions.
"""
