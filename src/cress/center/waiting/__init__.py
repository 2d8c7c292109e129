"""Things outside of the cluster for which jobs wait: a loop in the center, and a process that looks for them."""
