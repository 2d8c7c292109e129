"""What things are: resources, jobs, nodes, groups, events, decisions. Imports no other room."""
