"""What a state keeps: the fields of jobs, attempts, claims, leases and groups, the state as one struct, and its
versions.
"""
