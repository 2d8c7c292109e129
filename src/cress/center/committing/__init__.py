"""The committer, the look-up of its live and finished work, and the election of the leader."""
