"""What becomes of jobs over time; as pure as the core: events in, effects out, no clock and no I/O."""
