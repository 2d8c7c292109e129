"""Sizing: the number of nodes that a workload needs, found by simulations."""
