"""The quarantine: a folder with inputs that make a step fail, kept for the analysis of the defect."""

from __future__ import annotations

import contextlib
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cress.lifecycle.inputs import Input
from cress.model.times import SECOND

QUARANTINE = "quarantine"
# Most files that are kept, and most characters of an input.
MOST_FILES, MOST_TEXT = 1_000, 1_000_000

_log = logging.getLogger("cress.center")


class Quarantine:
    """A folder of JSON files, one for each input that was set aside; the oldest are removed if there are too many."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0

    def keep(self, what: Input, why: str, utc: int) -> Path:
        """Store an input, and return its file. An error is only logged, so that the center goes on."""
        moment = datetime.fromtimestamp(utc / SECOND, UTC)
        self._number += 1
        kind = type(what).__name__
        path = self._folder / f"{moment:%Y%m%dT%H%M%S.%f}-{self._number}-{kind}.json"
        note = {"at": moment.isoformat(), "kind": kind, "why": why, "input": repr(what)[:MOST_TEXT]}
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(msgspec.json.format(msgspec.json.encode(note)) + b"\n")
            path.chmod(0o600)
            for old in sorted(self._folder.glob("*.json"))[:-MOST_FILES]:
                with contextlib.suppress(OSError):
                    old.unlink()
        except (OSError, UnicodeEncodeError):
            _log.error("an input cannot be kept in quarantine: %s", traceback.format_exc(limit=0).strip())
        return path
