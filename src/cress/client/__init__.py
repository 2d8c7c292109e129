"""The Python API of a center: ``connect()``, then one method for each call. Importing it is cheap."""

from __future__ import annotations

from pathlib import Path

from cress.client.config import Address, NoCenter, find_center
from cress.client.errors import ClientError, NotFound, Refused, Unauthorized, Unavailable, Unreachable
from cress.client.http import Client

__all__ = [
    "Address",
    "Client",
    "ClientError",
    "NoCenter",
    "NotFound",
    "Refused",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "connect",
    "find_center",
]


def connect(data: Path | None = None) -> Client:
    """A client of the center that ``data``, the environment or the user's data directory names."""
    url, token, _ = find_center(data)
    return Client(url, token)
