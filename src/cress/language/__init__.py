"""The constraint language: the requirements of a job for its nodes, and its preferences (design note 0005)."""
