"""Fragments: what leases of workloads hold and do not use, and loans of it (source F, design note 0024)."""
