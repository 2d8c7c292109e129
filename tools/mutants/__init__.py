"""Mutation tests of what a change touches: ``make mutants``."""
