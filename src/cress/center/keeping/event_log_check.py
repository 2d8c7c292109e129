"""Checks of the event log's files: damage, missing files, and records that the store lacks."""

from __future__ import annotations

from pathlib import Path

from cress.center.keeping.event_log import files, read
from cress.model.errors import InputError
from cress.store.base import Damaged


def last_record(folder: Path) -> int:
    """Return the number of the last readable record of the newest file; 0 if there is none."""
    for path in reversed(files(folder)):
        try:
            file = read(path)
        except InputError:
            continue
        last = file.header.before
        try:
            for last, _ in file.raw():  # noqa: B007 – the last one is wanted
                pass
        except InputError:
            pass  # the records before the damage count
        return last
    return 0


def check_witness(folder: Path, store: Path, number: int, last: int | None = None) -> None:
    """Raise Damaged if the event log has records after ``number``, the store's last one, since the store lost them.

    The event log gets records only after the store has them. A store without records is new. ``last`` is the last
    record of the event log if it has been read before.
    """
    if not number:
        return
    last = last_record(folder) if last is None else last
    if last > number:
        raise Damaged(
            f"the store {store} has lost its last {last - number} records: it ends with record {number}, "
            f"the event log in {folder} with {last}; `cress store restore {store}` goes on without them"
        )


def missing_records(folder: Path, number: int, kept: int, last: int) -> str:
    """Return a message about records that neither the event log nor the store has; empty if there are none.

    The store ends with record ``number`` and has the last ``kept`` ones. ``last`` is the last one of the event log.
    """
    if number and folder.is_dir() and not files(folder):
        what = f"the event log in {folder} has no file such as 00000001.events"
        return f"{what}; the store does not depend on it, `cress replay` does"
    if not number or last >= number - kept or not folder.is_dir():
        return ""
    return f"the event log in {folder} lacks records {last + 1} to {number - kept}; `cress replay` has a gap there"


def damaged_files(folder: Path, *, newest: bool = True, older: bool = True) -> list[str]:
    """Return messages about damaged or missing files of the event log, on which the cluster's state does not depend.

    ``newest`` and ``older`` select the files to read.
    """
    found: list[str] = []
    before = 0
    for path in (known := files(folder)):
        number = int(path.stem)
        if older and before and number > before + 1:
            missing = ", ".join(f"{gap:08d}{path.suffix}" for gap in range(before + 1, number)[:3])
            found.append(f"{missing} is gone from the event log in {folder}; `cress replay` has a gap there")
        before = number
        if not (newest if path == known[-1] else older):
            continue
        try:
            for _ in read(path).raw():
                pass
        except InputError as error:
            found.append(f"the event log is damaged: {error}; the store does not depend on it, `cress replay` does")
    return found
