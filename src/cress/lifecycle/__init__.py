"""The life of jobs, attempts and nodes, as pure as the core: events in, effects out, no clock and no I/O."""
