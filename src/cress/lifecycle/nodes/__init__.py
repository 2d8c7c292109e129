"""Nodes: cordons, drains, ports, and observations."""
