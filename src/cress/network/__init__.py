"""Rules for connections that this process makes for users, whatever library makes them."""
