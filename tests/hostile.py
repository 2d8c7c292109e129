"""Hostile messages: valid ones with one value that is not, cut off, lengthened, or no messages at all."""

from __future__ import annotations

import copy
import math
from typing import Any

import msgspec
from hypothesis import strategies as st

VALUES: tuple[Any, ...] = (
    -1,
    0,
    2**31,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "x" * 10_000,
    "../../etc/passwd",
    "\x1b]0;x\x07\x1b[2J\x00\n",
    "\ud7ff\U0010ffff",
    b"\xff" * 9,
    [],
    {},
    None,
    True,
    [[[]]],
    {"": {"": []}},
    ["x"] * 1_000,
)
NOT_MESSAGES = (
    b"",
    b"\xc1",
    b"\x91" * 50_000,
    b"\x81\xa1x" * 20_000,
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\x00" * 100,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, each in inner:
        found += _places(each, (*path, key))
    return found


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value


def changed(message: Any, data: st.DataObject) -> Any:
    """Return a message as plain values, one of which is hostile or missing."""
    plain = copy.deepcopy(_listed(msgspec.to_builtins(message, builtin_types=(bytes,))))
    path = data.draw(st.sampled_from(_places(plain)))
    place = plain
    for key in path[:-1]:
        place = place[key]
    if data.draw(st.integers(0, 9)):
        place[path[-1]] = data.draw(st.sampled_from(VALUES))
    else:
        del place[path[-1]]
    return plain


def packed(messages: list[Any], data: st.DataObject) -> bytes:
    """Return the bytes of something that is not a message, or of one that is hostile."""
    kind = data.draw(st.sampled_from(("changed", "changed", "changed", "cut", "longer", "not", "random")))
    if kind == "not":
        return data.draw(st.sampled_from(NOT_MESSAGES))
    if kind == "random":
        return data.draw(st.binary(max_size=300))
    message = data.draw(st.sampled_from(messages))
    if kind == "changed":
        return msgspec.msgpack.encode(changed(message, data))
    whole = msgspec.msgpack.encode(message)
    return (
        whole[: data.draw(st.integers(0, len(whole)))]
        if kind == "cut"
        else whole + data.draw(st.binary(min_size=1, max_size=20))
    )
