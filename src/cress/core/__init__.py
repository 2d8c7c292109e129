"""The scheduler: pure code, compiled where speed matters, shared by the live center and the simulator."""
