"""The client, written once, for asyncio. ``tools/blocking_client.py`` makes the blocking half of it: ``blocking``."""
