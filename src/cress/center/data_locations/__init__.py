"""Locations of data: read from the namenodes of HDFS, and refreshed while jobs wait for the data."""
