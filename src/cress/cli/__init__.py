"""The `cress` command; each verb imports what it needs only when it runs."""
