"""The tree of groups: what each has, its place among its siblings, and what it borrowed lately (design note 0030)."""
