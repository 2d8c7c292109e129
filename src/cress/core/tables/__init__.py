"""Tables of the core: nodes, leases, devices, ports, racks, licences, data, measured load."""
