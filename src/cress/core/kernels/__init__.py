"""The compiled loops. Each has a plain twin in the tests that does the same operations in the same order."""
