"""Starts: tasks on nodes, units that wait, and claimed units."""
