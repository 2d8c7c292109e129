"""Level three: the nodes that a unit may take, and the choice among them."""
