"""Data types shared by all rooms: resources, jobs, nodes, groups, events, decisions. Imports no other room."""
