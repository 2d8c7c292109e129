"""Jobs as a table: CSV (also gzipped) or Parquet, one job a row; the columns are in docs/simulate.md.

Cells may have units (``8G``, ``2h``). The cluster comes with ``--cluster``.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from cress.model.errors import InputError
from cress.model.family import Database, Service
from cress.model.job import Condition, Job
from cress.model.resources import Dimensions
from cress.model.times import DAY
from cress.model.units import closest, parse_count, parse_dimension, parse_duration
from cress.simulator.dependencies import in_order
from cress.simulator.files import UNREADABLE
from cress.simulator.tidying import tidy
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.traces.jobkeys import COLUMNS, WITH_TASKS, template_of
from cress.simulator.workload import NO_LIMIT, After, Floats, Ints, SimulatedCluster, Workload, template

Cell: TypeAlias = str | int | float | bool | None
Columns: TypeAlias = dict[str, Sequence[Cell]]

REQUIRED = ("job", "submit", "run")
OPTIONAL = (
    "time_limit",
    "group",
    "user",
    "priority",
    "tasks",
    "gang",
    "after",
    "family",
    "fails",
    "until",
    "deadline",
    *COLUMNS,
)
# Columns that `cress export` writes: what happened, which a simulation does not need.
HAPPENED = ("name", "start", "end", "wait", "state", "attempts", "preemptions", "ran_on")
# Before the name of a dimension: the amount that one task uses on average, of the amount that it asks for.
USED = "used_"
MOST_TASKS = 10_000_000
HOW = {condition.value: condition for condition in Condition}

TRUE = {"true", "yes", "1", "y", "t"}
FALSE = {"false", "no", "0", "n", "f", ""}

# An empty cell of an amount.
NO_AMOUNT = -1

# A hundred years in microseconds: later submissions are mistakes, such as milliseconds.
LATEST = 36_500 * DAY


def load(path: Path, cluster: SimulatedCluster | None) -> Workload:
    """Read a table of jobs. Raise ``InputError`` for missing columns, and if no job is left."""
    if cluster is None:
        raise InputError("a table of jobs has no cluster", hint="give --cluster FILE", file=str(path))
    notes = TraceNotes()
    columns, lines = _read_parquet(path) if path.suffix == ".parquet" else read_csv(path, notes)
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        near = {name: closest(name, columns) for name in missing}
        hint = "; ".join(f"is {found} meant to be {name}?" for name, found in near.items() if found)
        raise InputError(
            f"missing column{'s' if len(missing) > 1 else ''}: {', '.join(missing)}",
            hint=hint or "needed are " + ", ".join(REQUIRED) + " and at least one resource",
            file=str(path),
            line=1,
        )
    if not any(name in columns for name in cluster.dimensions.names):
        raise InputError(
            "no column has the resources of a task", hint="cpu, memory, …: see docs/simulate.md", file=str(path), line=1
        )
    known = (*REQUIRED, *OPTIONAL, *cluster.dimensions.names, *(USED + name for name in cluster.dimensions.names))
    for name in columns:
        if name not in (*known, *HAPPENED):
            meant = closest(name, known)
            notes.add("unknown column", count=1, detail=f"{name}: did you mean {meant}?" if meant else name)
    return workload_of(path, columns, lines, cluster, notes)


def read_csv(path: Path, notes: TraceNotes) -> tuple[Columns, list[int]]:
    """Return the columns by name, and the line number of each row. Rows of a wrong length are left out."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("is not a text file", hint="CSV in UTF-8", file=str(path)) from error
    except UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot be read: {reason}", file=str(path)) from error
    reader = csv.reader(io.StringIO(text, newline=""))
    rows, lines, malformed = [], [], []
    try:
        header = [name.strip() for name in next(reader, [])]
        double = sorted({name for name in header if header.count(name) > 1})
        if double:
            hint = "column names must be unique"
            raise InputError(f"column {double[0]} is given twice", hint=hint, file=str(path), line=1)
        for row in reader:
            if len(row) == len(header):
                rows.append(row)
                lines.append(reader.line_num)
            elif any(cell.strip() for cell in row):
                malformed.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"is not valid CSV: {error}", file=str(path), line=reader.line_num) from error
    notes.add("malformed line", malformed)
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}, lines


def _read_parquet(path: Path) -> tuple[Columns, list[int]]:
    """Return the columns by name; the number of a row serves as its line."""
    try:
        import polars as pl
    except ImportError as error:
        raise InputError(
            "reading Parquet needs more packages", hint="pip install 'cress[sim]'", file=str(path)
        ) from error
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot be read: {error}", file=str(path)) from error
    return {name: frame[name].to_list() for name in frame.columns}, list(range(1, frame.height + 1))


class _Rows:
    """The rows of a table; parsing a column drops the rows with an invalid cell."""

    def __init__(self, columns: Columns, lines: list[int], notes: TraceNotes) -> None:
        self.columns = columns
        self.line = np.array(lines, dtype=np.int64)
        self.good = np.ones(len(lines), dtype=np.bool_)
        self._notes = notes

    def integers(
        self, name: str, parse: Callable[[str], int], default: int
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return one column as int64 ``[n]``; empty cells give ``default``, invalid ones are noted as malformed."""
        n = len(self.line)
        if name not in self.columns:
            return np.full(n, default, dtype=np.int64)
        # A column has few distinct values, so each is parsed once.
        known: dict[Cell, int | str] = {}
        values = np.empty(n, dtype=np.int64)
        wrong: list[int] = []
        complaint = ""
        for i, cell in enumerate(self.columns[name]):
            if cell in known:
                value = known[cell]
            else:
                value = known[cell] = _parse(cell, parse, default)
            if isinstance(value, str):
                wrong.append(i)
                complaint = complaint or f"{name}: {value}"
                value = default
            values[i] = value
        self.drop("malformed line", np.array(wrong, dtype=np.int64), detail=complaint)
        return values

    def texts(self, name: str) -> list[str]:
        """Return one column as texts, empty if it is missing."""
        if name not in self.columns:
            return [""] * len(self.line)
        return ["" if cell is None else str(cell).strip() for cell in self.columns[name]]

    def note(self, kind: str, lines: list[int]) -> None:
        """Add a note on these lines, and keep them."""
        self._notes.add(kind, lines)

    def drop(self, kind: str, rows: np.ndarray[tuple[int], np.dtype[np.int64]], *, detail: str = "") -> None:
        """Leave these rows out, with a note on those that were valid until now."""
        fresh = rows[self.good[rows]]
        self.good[rows] = False
        self._notes.add(kind, self.line[fresh].tolist(), detail=detail)


def _parse(cell: Cell, parse: Callable[[str], int], default: int) -> int | str:
    """Return the value of a cell, or a sentence with its mistake."""
    text = "" if cell is None else str(cell).strip()
    if not text:
        return default
    try:
        return parse(text)
    except InputError as error:
        # Only the question of the hint: the rest of it says what is in the documentation, and many rows have a note.
        question, mark, _ = error.hint.partition("?")
        return f"{error.what} ({question}?)" if mark and question.startswith("did you mean") else error.what


def _signed(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise InputError(f"{text!r} is not a whole number") from None
    if abs(value) > 2**31:
        raise InputError(f"{text!r} is too large")
    return value


def _truth(text: str) -> int:
    if text.lower() in TRUE:
        return 1
    if text.lower() in FALSE:
        return 0
    raise InputError(f"{text!r} is neither true nor false")


def _duration(text: str) -> int:
    """Return microseconds; -1, the archives' "unknown", stays -1."""
    if text in {"-1", "-1.0"}:
        return NO_LIMIT
    value = parse_duration(text)
    if value > LATEST:
        raise InputError(f"{text!r} is too long")
    return value


def _given(text: str) -> int:
    """Return microseconds; 0 and -1 mean "not given", as in logs: nothing is limited to 0 s."""
    return _duration(text) or NO_LIMIT


def workload_of(
    path: Path, columns: Columns, lines: list[int], cluster: SimulatedCluster, notes: TraceNotes
) -> Workload:
    """Return the workload of a table with the columns of docs/simulate.md, each row from a line of the file."""
    rows = _Rows(columns, lines, notes)
    dimensions = cluster.dimensions
    ids = rows.texts("job")
    rows.drop(
        "malformed line", np.array([i for i, job in enumerate(ids) if not job], dtype=np.int64), detail="job: is empty"
    )
    submit = rows.integers("submit", _duration, NO_LIMIT)
    run = rows.integers("run", _duration, NO_LIMIT)
    limit = rows.integers("time_limit", _given, NO_LIMIT)
    tasks = rows.integers("tasks", lambda text: parse_count(text, most=MOST_TASKS), 1)
    gang = rows.integers("gang", _truth, 0)
    priority = rows.integers("priority", _signed, 0)
    amounts = np.zeros((len(ids), len(dimensions)), dtype=np.int64)
    for k, name in enumerate(dimensions.names):
        amounts[:, k] = rows.integers(name, _amount(name, dimensions), 0)
    used = _used(rows, amounts, dimensions)
    templates, template_index = _templates(rows, cluster)
    after = _after(ids, rows)
    families, family_index = np.unique(np.array(rows.texts("family"), dtype=object), return_inverse=True)
    rows.drop("unknown submit time", np.flatnonzero(submit < 0))
    fails = rows.integers("fails", lambda text: parse_count(text, most=MOST_TASKS), 0)
    until = rows.integers("until", _duration, NO_LIMIT)
    within = rows.integers("deadline", _given, NO_LIMIT)
    early = np.flatnonzero((until != NO_LIMIT) & (until <= submit))
    rows.drop("malformed line", early, detail="until: not after submit")
    endless = np.array(
        [isinstance(job_template.plan, Service | Database) for job_template in templates], dtype=np.bool_
    )
    unknown = run < 0 if template_index is None else (run < 0) & ~endless[template_index]
    rows.drop("unknown run time", np.flatnonzero(unknown))
    nothing = (tasks < 1) | ~amounts.any(axis=1)
    rows.drop("zero processors", np.flatnonzero(nothing))
    if not rows.good.any():
        raise InputError("no usable job in it", hint="; ".join(notes.sentences()) or "a row a job", file=str(path))
    _note_duplicates(ids, rows, notes)
    requests, request_index = np.unique(amounts, axis=0, return_inverse=True)
    users, user_index = np.unique(np.array(rows.texts("user"), dtype=object), return_inverse=True)
    names, group_index = np.unique(np.array(rows.texts("group"), dtype=object), return_inverse=True)
    workload = Workload(
        name=path.name.removesuffix(".gz").rsplit(".", 1)[0],
        cluster=cluster,
        ids=ids,
        submit=submit,
        run=run,
        limit=limit,
        tasks=tasks,
        gang=gang.astype(np.bool_),
        killed=np.zeros(len(ids), dtype=np.bool_),
        priority=priority,
        request_index=request_index.reshape(-1).astype(np.int64),
        requests=[tuple(row) for row in requests.tolist()],
        user_index=user_index.astype(np.int64),
        users=[str(user) for user in users],
        group_index=group_index.astype(np.int64),
        group_names=[str(name) for name in names],
        line=rows.line,
        notes=notes,
        templates=templates,
        template_index=template_index,
        after=after,
        family_index=family_index.astype(np.int64) if "family" in columns else None,
        family_names=tuple(str(name) for name in families),
        fails=fails if "fails" in columns else None,
        until=until if "until" in columns else None,
        deadline=np.where(within == NO_LIMIT, NO_LIMIT, submit + within) if "deadline" in columns else None,
        used=used,
    )
    if after is not None:
        try:
            in_order(after, ids)
        except InputError as error:
            raise error.at(file=str(path), field="after") from None
    workload = workload.select(rows.good)
    if after is not None:
        kept = sum(map(len, workload.after or ()))
        notes.add("unknown predecessor", count=sum(len(after[i]) for i in np.flatnonzero(rows.good).tolist()) - kept)
    return tidy(workload)


def _after(ids: list[str], rows: _Rows) -> After | None:
    """Return the dependencies of each row: names of jobs separated by spaces, each ``NAME`` or ``NAME:any``."""
    if "after" not in rows.columns:
        return None
    # The first job, if a name occurs twice.
    place = {name: i for i, name in reversed(list(enumerate(ids)))}
    found: list[tuple[tuple[int, Condition], ...]] = []
    wrong: list[int] = []
    unknown: list[int] = []
    for i, text in enumerate(rows.texts("after")):
        before: dict[int, Condition] = {}
        for word in text.split():
            name, colon, how = (word, "", "") if word in place else word.rpartition(":")
            if colon and how not in HOW:
                wrong.append(i)
            elif name in place:
                before[place[name]] = HOW[how] if colon else Condition.OK
            else:
                unknown.append(int(rows.line[i]))
        found.append(tuple(before.items()))
    rows.drop("malformed line", np.array(wrong, dtype=np.int64), detail=f"after: NAME, or NAME:{', '.join(HOW)}")
    rows.note("unknown predecessor", unknown)
    return tuple(found)


def _templates(rows: _Rows, cluster: SimulatedCluster) -> tuple[tuple[Job, ...], Ints | None]:
    """Return the distinct templates of the rows' job keys, and the index of each row's template."""
    names = [name for name in COLUMNS if name in rows.columns]
    if not names:
        return (template(),), None
    if any(name in names for name in WITH_TASKS):
        names += ["tasks", "gang"]
    licences = dict(cluster.licences)
    known: dict[tuple[str, ...], int] = {}
    found: list[Job] = []
    index = np.zeros(len(rows.line), dtype=np.int64)
    wrong: list[int] = []
    complaint = ""
    for i, cells in enumerate(zip(*(rows.texts(name) for name in names), strict=True)):
        if cells not in known:
            try:
                found.append(template_of(dict(zip(names, cells, strict=True)), cluster.dimensions, licences))
                known[cells] = len(found) - 1
            except InputError as error:
                known[cells] = -1
                complaint = complaint or f"{error.field.removeprefix('.')}: {error.what}"
        index[i] = max(0, known[cells])
        if known[cells] < 0:
            wrong.append(i)
    rows.drop("malformed line", np.array(wrong, dtype=np.int64), detail=complaint)
    return tuple(found) or (template(),), index


def _used(rows: _Rows, amounts: Ints, dimensions: Dimensions) -> dict[str, Floats]:
    """Return what one task uses of each dimension with such a column; an empty cell says that it uses all of it."""
    found: dict[str, Floats] = {}
    for k, name in enumerate(dimensions.names):
        column = USED + name
        if column not in rows.columns or column in dimensions.index:
            continue
        given = rows.integers(column, _amount(name, dimensions), NO_AMOUNT)
        found[name] = np.where(given == NO_AMOUNT, amounts[:, k], given).astype(np.float64)
        more = rows.good & (found[name] > amounts[:, k])
        rows.note("uses more than it asks for", rows.line[more].tolist())
    return found


def _amount(name: str, dimensions: Dimensions) -> Callable[[str], int]:
    def parse(text: str) -> int:
        return parse_dimension(_plain_float(text), name, dimensions)

    return parse


def _plain_float(text: str) -> str:
    """Return a float in plain form: Parquet has 4.0 for 4, and 1e9 where the units' parser needs digits."""
    if text.endswith(".0"):
        return text[:-2]
    if "e" in text.lower():
        try:
            return f"{float(text):f}".rstrip("0").rstrip(".")
        except ValueError:
            return text
    return text


def _note_duplicates(ids: list[str], rows: _Rows, notes: TraceNotes) -> None:
    seen: set[str] = set()
    again = []
    for i in np.flatnonzero(rows.good).tolist():
        if ids[i] in seen:
            again.append(int(rows.line[i]))
        seen.add(ids[i])
    notes.add("duplicate job id", again)
