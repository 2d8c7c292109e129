"""Locations of data: asked from the name nodes of HDFS, kept fresh while jobs wait for it."""
