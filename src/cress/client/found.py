"""The center for a client."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cress.client.config import TOKEN, Address, authority, check_token, check_url, find_center
from cress.model.errors import InputError


class FoundCenter(NamedTuple):
    """The address of a center, its Unix socket if it has one here, its authority, and the way to look it up again."""

    url: str
    token: str
    advice: str
    find: Any
    socket: Path | None = None
    ca: Path | None = None


def found(url: str | None, token: str | None, data: Path | str | None) -> FoundCenter:
    """Return the chosen center. Raises ``NoCenter``, ``InputError``."""
    if url is not None:
        given = token if token is not None else os.environ.get(TOKEN, "").strip()
        if not given:
            raise InputError(f"{url} without a token", hint=f"token=, or {TOKEN} in the environment")
        return FoundCenter(check_url(url, "url"), check_token(given, "token"), "", None, ca=authority())
    find = partial(find_center, Path(data) if data is not None else None)
    address: Address = find()
    advice = f"start one with `cress up --data {address.data}`" if address.data else ""
    return FoundCenter(address.url, address.token, advice, find, address.socket, address.ca)
