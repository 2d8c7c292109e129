"""Advance reservations: amounts kept for a group at known times, and maintenance windows (design note 0032)."""
