"""The state of the machine as tables of rows, which track their changes."""
