"""The constraint language: what a job requires of its nodes, and which of them it prefers (design note 0005)."""
