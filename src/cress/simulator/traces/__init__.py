"""Where workloads come from. A new format is one new file with a ``load`` and one line here."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO

from cress.model.errors import InputError
from cress.simulator.workload import Cluster, Workload

# Suffix of the file → the module that reads it, imported when it is needed.
FORMATS: dict[str, str] = {
    ".swf": "cress.simulator.traces.swf",
    ".swf.gz": "cress.simulator.traces.swf",
    ".csv": "cress.simulator.traces.table",
    ".csv.gz": "cress.simulator.traces.table",
    ".parquet": "cress.simulator.traces.table",
    ".jsonl": "cress.simulator.traces.dag",
    ".jsonl.gz": "cress.simulator.traces.dag",
}
GENERATED = "generated"
TABLES = (".csv", ".csv.gz")
MOST_HEADER = 100_000


def load_workload(source: str, cluster: Cluster | None, seed: int) -> Workload:
    """The workload of a file, or a generated one: ``generated`` or ``generated:jobs=1000,load=0.9,…``.

    ``cluster`` is that of ``--cluster``; formats that bring none need it. Raises ``InputError``.
    """
    if source == GENERATED or source.startswith(GENERATED + ":"):
        from cress.simulator.traces import generated

        return generated.load(source.removeprefix(GENERATED).removeprefix(":"), cluster, seed)
    path = Path(source)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "no such file"
        raise InputError(what, hint="a file " + ", ".join(FORMATS) + f" or `{GENERATED}`", file=source)
    for suffix, module in FORMATS.items():
        if path.name.lower().endswith(suffix):
            workload: Workload = import_module(_of_header(path) or module).load(path, cluster)
            return workload
    raise InputError("the format of this trace is not known", hint="one of " + ", ".join(FORMATS), file=source)


def _of_header(path: Path) -> str:
    """The module of a table whose columns are those of another format than ours; empty: it is ours, or no table."""
    if not path.name.lower().endswith(TABLES):
        return ""
    from cress.simulator.traces import openb

    with suppress(OSError, UnicodeDecodeError, EOFError, zlib.error), text_of(path) as file:
        if openb.is_pods([name.strip() for name in file.readline(MOST_HEADER).split(",")]):
            return openb.__name__
    return ""


def text_of(path: Path) -> IO[str]:
    """The text of a file that may be gzipped, to be read and closed."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")
