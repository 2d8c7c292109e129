"""Gates: what other than room keeps a waiting unit from starting, one class each, and their order."""
