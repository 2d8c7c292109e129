"""Callers of the API, their rights, and the record of what was refused or administered."""
