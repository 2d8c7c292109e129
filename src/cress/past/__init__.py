"""The past of a cluster, read from the event log that its center recorded."""
