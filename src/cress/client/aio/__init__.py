"""The client for asyncio. ``tools/blocking_client.py`` generates the ``blocking`` half from it."""
