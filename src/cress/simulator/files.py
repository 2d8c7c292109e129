"""Files: texts that may be gzipped, and results that are written completely or not at all."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from cress.model.errors import InputError

# The errors of a file that is not there, may not be read, or is not what its suffix ``.gz`` says.
UNREADABLE = (OSError, EOFError, zlib.error)
# The files of one run.
RESULTS = ("summary.json", "jobs.csv", "dags.csv", "attempts.csv")


def make_directory(path: Path) -> None:
    """Make the directory of the results. Raise ``InputError`` if it cannot be written to."""
    probe = path / f".{os.getpid()}.part"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", hint="another --out", file=str(path)) from error


def remove_earlier(path: Path, written: Collection[Path]) -> None:
    """Remove the runs of an earlier simulation from the directory of the results, but no file of ``written``.

    A run is a folder with a ``summary.json`` of the simulator. Other files and folders stay, and so does a folder with
    anything else in it.
    """
    for folder in sorted(path.iterdir()):
        if folder.is_symlink() or not _is_run(folder):
            continue
        with suppress(OSError):
            for name in RESULTS:
                if folder / name not in written:
                    (folder / name).unlink(missing_ok=True)
            folder.rmdir()


def _is_run(folder: Path) -> bool:
    try:
        summary = json.loads((folder / "summary.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(summary, dict) and summary.keys() >= {"trace", "policy", "events_order"}


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that gets its name only when it is complete; its directory is made if missing.

    After an exception (also Ctrl-C) nothing is left behind, and an earlier file of that name stays.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", hint="another --out", file=str(path)) from error
    finally:
        # The cause of a failed write may also prevent the removal; the first error is the one to report.
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def text_of(path: Path) -> IO[str]:
    """Return the open text of a file that may be gzipped; the caller closes it."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")
