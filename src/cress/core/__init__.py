"""The decisions: pure, compiled where it counts, the same in the live center and in the simulator."""
