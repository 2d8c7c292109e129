"""Moves of running tasks that free devices, nodes or a place for a waiting unit (design note 0027)."""
