"""Answers about waiting jobs, found by trying a change, or time, on a copy of the scheduler (design note 0051)."""
