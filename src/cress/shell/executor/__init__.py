"""The loops of agent and supervisor, and what the supervisor decides about attempts."""
