"""Level two: the order of the jobs inside a group, one short file for each policy."""
