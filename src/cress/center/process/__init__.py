"""The process of the center: its clock, event loop, memory, compiled kernels and forked work."""
