"""Job files: the text that users write, read into jobs and runs (docs/jobs.md)."""
