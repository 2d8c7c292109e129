"""Messages between the center and the process that looks for files, pages and addresses: one line of JSON each."""

from __future__ import annotations

import msgspec


class LookerSettings(msgspec.Struct, frozen=True):
    """The first line for the process: the rules for ``hosts``, and the ``folders`` whose files jobs may wait for."""

    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class LookOrder(msgspec.Struct, frozen=True):
    """The order to look for a thing once; ``kind`` and ``name`` as in ``WaitFor``, ``user``: whose turn it is."""

    id: int
    kind: str
    name: str
    user: str = ""


class LookResult(msgspec.Struct, frozen=True):
    """The result of a look. ``problem`` says why no further look would find it; empty: it may be there later."""

    id: int
    found: bool
    problem: str = ""


encode = msgspec.json.Encoder().encode
decode_settings = msgspec.json.Decoder(LookerSettings).decode
decode_order = msgspec.json.Decoder(LookOrder).decode
decode_result = msgspec.json.Decoder(LookResult).decode
