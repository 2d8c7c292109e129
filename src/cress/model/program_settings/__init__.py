"""The table of the settings of ``cress center``, ``cress executor`` and ``cress up``: one row for each setting."""
