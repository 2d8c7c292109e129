"""The web side of the center: ASGI types, signed requests, limits on requests and sign-ins."""
