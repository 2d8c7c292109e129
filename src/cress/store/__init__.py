"""What survives: a log of what the center was told, snapshots, and finished work."""
