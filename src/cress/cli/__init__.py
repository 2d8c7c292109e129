"""The `cress` command; each verb imports its modules only when it runs."""
