"""Formats of files that several rooms read: framed files, and YAML with lines."""
