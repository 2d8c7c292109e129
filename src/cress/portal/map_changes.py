"""The columns of the map of nodes as what changed since the ones that a page has: 10,000 nodes are 140 KB."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

# Columns with a value for each node, of which only those that changed are sent, and those that are sent whole.
BY_NODE, WHOLE = ("shares", "running"), ("states",)
# Maps that are kept for one viewer, each with its filter, and versions of one map.
MOST_MAPS, VERSIONS = 8, 4


class MapVersions:
    """The latest columns of the maps that a user's pages have, by filter and version."""

    def __init__(self) -> None:
        self._maps: dict[str, dict[str, Mapping[str, Any]]] = {}

    def answer(self, asked: str, columns: Mapping[str, Any], since: str) -> bytes | None:
        """Return what a page needs that has the version ``since`` of the map ``asked``, as JSON; None if it has all.

        The answer has ``version``. With ``since`` its columns ``shares`` and ``running`` are pairs of a position and a
        value; without it, all is there.
        """
        whole = msgspec.json.encode(columns)
        version = sha256(whole).hexdigest()[:16]
        if version == since:
            return None
        # The map that was asked for last is the last to be forgotten.
        kept = self._maps.pop(asked, {})
        self._maps[asked] = kept
        known = kept.get(since)
        kept.pop(version, None)
        kept[version] = columns
        for group, most in ((kept, VERSIONS), (self._maps, MOST_MAPS)):
            while len(group) > most:
                group.pop(next(iter(group)))
        if known is None or any(known[name] != columns[name] for name in columns if name not in (*BY_NODE, *WHOLE)):
            return msgspec.json.encode({**columns, "version": version})
        changed = {
            name: [[i, new] for i, (old, new) in enumerate(zip(known[name], columns[name], strict=True)) if old != new]
            for name in BY_NODE
        }
        rest = {name: columns[name] for name in WHOLE}
        return msgspec.json.encode({**changed, **rest, "version": version, "since": since})
