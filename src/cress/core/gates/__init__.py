"""Gates: the restrictions, other than room, on the start of a waiting unit; one class each, and their order."""
