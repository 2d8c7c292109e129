"""The loops of agent and supervisor, and the supervisor's decisions about attempts."""
