"""The store: the log of a cluster, its snapshots, and finished work."""
