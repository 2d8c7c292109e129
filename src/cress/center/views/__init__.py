"""Views of jobs, nodes and groups in the API."""
