"""Level three: the nodes on which a unit may start, and the choice among them."""
