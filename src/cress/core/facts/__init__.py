"""The change that each fact makes, by topic."""
