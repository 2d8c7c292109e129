"""The scheduler: pure, compiled where it counts, and used alike by the live center and the simulator."""
