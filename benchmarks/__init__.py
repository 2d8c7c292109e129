"""What the speed goals are measured by: ``make bench``."""
