"""The committer and what reads beside it: the live state, and whether this center is the leader."""
