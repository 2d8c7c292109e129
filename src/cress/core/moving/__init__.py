"""Moving running tasks: what to move where so that devices, nodes or a place for a waiting unit become free (design
note 0027).
"""
