"""TLS of the center: its own certificate authority, the contexts of its listeners, renewal."""
