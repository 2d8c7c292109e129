"""Files of the operator: topology, licences, groups and the configuration document."""
