"""The worker: marks entries as seen, for ever."""

from __future__ import annotations

import os
import time

import guestbook
import psycopg


def work() -> None:
    """As long as the database is there."""
    with guestbook.database(os.environ.get("CLUSTER", "")) as connection:
        while True:
            for (number,) in connection.execute("UPDATE entries SET seen = true WHERE NOT seen RETURNING id"):
                print("seen", number, flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    while True:
        try:
            work()
        except (psycopg.Error, OSError) as error:
            print("again:", error, flush=True)
        time.sleep(1)
