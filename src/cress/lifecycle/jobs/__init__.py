"""Jobs: their ends, the members of families, and the reasons of waiting jobs."""
