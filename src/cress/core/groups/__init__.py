"""Levels one and two: the order of the groups, and of the jobs inside a group."""
