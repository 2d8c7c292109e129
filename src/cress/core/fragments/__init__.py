"""Fragments: the idle parts of leases of workloads, and loans of them (source F, design note 0024)."""
