"""What runs on a node: the supervisor, parent of the tasks, and the agent, which talks to the center."""
