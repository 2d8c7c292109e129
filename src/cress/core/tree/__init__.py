"""The tree of groups: their use, their places among siblings, and their past borrowing (design note 0030)."""
