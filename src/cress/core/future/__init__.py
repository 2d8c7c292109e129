"""The time axis: the earliest time at which a unit fits, and the bookings on which that depends."""
