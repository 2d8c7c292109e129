"""What web and worker share: the way to the database, wherever it runs at the moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from cress.client import ClientError, NoCenter, connect

TABLE = "CREATE TABLE IF NOT EXISTS entries (id serial PRIMARY KEY, name text, seen boolean DEFAULT false)"


def database(cluster: str) -> psycopg.Connection[Any]:
    """A connection to the database that `cress resolve db` shows; ``cluster``: the data directory of the center."""
    try:
        with connect(Path(cluster) if cluster else None) as client:
            places = client.resolve("db")
    except (ClientError, NoCenter) as error:
        raise psycopg.OperationalError(f"nobody says where the database is: {error}") from None
    if not places:
        raise psycopg.OperationalError("the database is not ready")
    connection = psycopg.connect(
        host=places[0].address, port=places[0].ports["postgres"], user="guestbook", dbname="postgres",
        connect_timeout=5, autocommit=True,
    )  # fmt: skip
    connection.execute(TABLE)
    return connection
