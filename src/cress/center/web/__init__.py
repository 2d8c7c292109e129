"""The web side of the center: types of ASGI, signed requests, limits on requests and sign-ins."""
