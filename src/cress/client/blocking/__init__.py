"""The blocking client, written by ``tools/blocking_client.py``: edit ``aio``. Only ``runtime`` is written by hand."""
