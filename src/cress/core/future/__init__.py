"""The time axis: the earliest time at which a unit fits, and the bookings that rely on it."""
