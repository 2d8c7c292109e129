"""Trace formats. A new format is one new file with a ``load(path, cluster)`` and one line here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from cress.model.errors import InputError
from cress.simulator.files import UNREADABLE, text_of
from cress.simulator.load import at_load
from cress.simulator.workload import SimulatedCluster, Workload

if TYPE_CHECKING:
    from cress.past.recorded_log import LogSpan


@dataclass(frozen=True)
class Format:
    """A format: the module that reads it, imported on use, and the suffixes of its files.

    With ``columns`` it is a table that is recognised by these names in its first line. With ``sized`` the reader
    chooses the number of nodes by the load.
    """

    module: str
    suffixes: tuple[str, ...]
    columns: tuple[str, ...] = ()
    sized: bool = False


TABLES = (".csv", ".csv.gz")
FORMATS = (
    Format("swf", (".swf", ".swf.gz")),
    Format("openb", TABLES, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")),
    Format(
        "chronus",
        TABLES,
        ("job_id", "user", "num_gpu", "submit_time", "duration", "expect_time_list", "job_type"),
        sized=True,
    ),
    Format("table", (*TABLES, ".parquet")),
    Format("dag", (".jsonl", ".jsonl.gz")),
    Format("jobfile", (".yaml", ".yml")),
)
SUFFIXES = tuple(dict.fromkeys(suffix for trace_format in FORMATS for suffix in trace_format.suffixes))
# Generators: each is a module of this name with ``load(parameters, cluster, seed)``.
GENERATED, FRAMEWORKS, MIXED = GENERATORS = ("generated", "frameworks", "mixed")
# Event logs of centers: data directories, folders of event files, and files with this suffix.
RECORDED = ".events"
MOST_HEADER = 100_000


def load_workload(
    source: str, cluster: SimulatedCluster | None, seed: int, load: float | None = None, span: LogSpan | None = None
) -> Workload:
    """Return the workload of a file, or a generated one.

    Generated ones are ``generated`` or ``generated:jobs=1000,load=0.9,…``, ``frameworks`` and ``mixed``. ``cluster`` is
    that of ``--cluster``; formats without a cluster need it. ``load`` is that of ``--load``: if the trace has no number
    of nodes, the load sets it, otherwise the times between submissions are scaled. ``span`` is the part of an event log
    (a center's data directory, or its files) to simulate. Raise ``InputError``.
    """
    name, _, parameters = source.partition(":")
    if span is not None and not _is_recorded(Path(source)):
        hint = "for another trace leave out --history, --from, --until and --anonymise"
        raise InputError("is not an event log", hint=hint, file=source)
    if name in GENERATORS:
        if load is not None:
            raise InputError("a generated workload has its own load", hint=f"{name}:load={load:g}", field="--load")
        generated: Workload = import_module(f"{__name__}.{name}").load(parameters, cluster, seed)
        return generated
    path = Path(source)
    if _is_recorded(path) and path.exists():
        recorded: Workload = import_module(f"{__name__}.recorded").load(path, cluster, span)
        return recorded if load is None else at_load(recorded, load)
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "no such file"
        raise InputError(
            what,
            hint="a file "
            + ", ".join(SUFFIXES)
            + f", the data directory of a center, `{GENERATED}`, `{FRAMEWORKS}` or `{MIXED}`",
            file=source,
        )
    header = _header(path)
    for trace_format in FORMATS:
        if path.name.lower().endswith(trace_format.suffixes) and set(trace_format.columns) <= set(header):
            module = import_module(f"{__name__}.{trace_format.module}")
            workload: Workload = module.load(path, cluster, load) if trace_format.sized else module.load(path, cluster)
            return workload if load is None or trace_format.sized else at_load(workload, load)
    raise InputError("unknown trace format", hint="one of " + ", ".join((*SUFFIXES, RECORDED)), file=source)


def _is_recorded(path: Path) -> bool:
    """Return whether a path is an event log; what reads one is imported for what may be one only."""
    if not path.name.endswith(RECORDED) and not path.is_dir():
        return False
    from cress.past.recorded_log import is_recorded

    return is_recorded(path)


def _header(path: Path) -> Sequence[str]:
    """Return the names in the first line of a table; empty for other files, and for unreadable ones."""
    if path.name.lower().endswith(TABLES):
        with suppress(UnicodeDecodeError, *UNREADABLE), text_of(path) as file:
            return [name.strip() for name in file.readline(MOST_HEADER).split(",")]
    return ()
