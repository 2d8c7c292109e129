"""Level three: which nodes a unit may take, and which of them it takes."""
