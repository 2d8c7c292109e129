"""The simulator: real and generated workloads in virtual time, with the same core as a live cluster."""
