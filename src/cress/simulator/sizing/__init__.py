"""Sizing: how many nodes a workload needs, found by simulations."""
