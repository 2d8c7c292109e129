"""Groups as text: ``Group.conf``, quotas and timetables, and their checks against a cluster."""
