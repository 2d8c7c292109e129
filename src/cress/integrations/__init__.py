"""External frameworks on leases of the cluster; each needs an extra of its own."""
