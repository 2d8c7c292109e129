"""Storage of the center: data directory, event log, finished work; recovery and maintenance of a store."""
