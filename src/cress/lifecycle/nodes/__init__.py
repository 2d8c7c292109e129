"""Nodes: cordons, drains, ports, and what is observed on them."""
