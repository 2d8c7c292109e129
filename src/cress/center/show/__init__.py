"""Views: what the API shows of jobs, nodes and groups."""
