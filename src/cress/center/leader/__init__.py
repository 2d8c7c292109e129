"""Leader and standby: the change between the two, and the work that only a leader does."""
