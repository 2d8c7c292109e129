"""What the core knows, as tables: nodes, leases, devices, ports, racks, licences, data, measured load."""
