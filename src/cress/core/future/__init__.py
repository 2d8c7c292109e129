"""The time axis: when something fits, and the bookings that rely on it."""
