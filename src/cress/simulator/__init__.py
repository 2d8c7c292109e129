"""The simulator: real and generated workloads in virtual time round the same core that runs live."""
