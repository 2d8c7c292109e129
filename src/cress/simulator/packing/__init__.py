"""Packing: pods arrive on an empty cluster and stay, until they request more GPUs than exist.

It compares the GPUs that each order of nodes allocates.
"""
