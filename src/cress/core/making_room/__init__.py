"""Room for a blocked unit: inside leases, from fragments, or by preemption."""
