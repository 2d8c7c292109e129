"""Standard Workload Format, version 2.2: 18 columns, and ``;`` comments that contain the header.

Source: Feitelson, Tsafrir, Krakov, "Experience with using the Parallel Workloads Archive", JPDC 74 (2014), and the
archive's definition of the format. A processor log has no nodes: it becomes one node with that many cores, and each job
one task of as many cores. On a cluster of several nodes (``--cluster``) no node could hold such a task, so each job is
a gang of tasks of one core.
"""

from __future__ import annotations

import gzip
import warnings
from codecs import BOM_UTF8
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cress.model.errors import InputError
from cress.model.job import Condition
from cress.model.node import Node
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.model.whole_numbers import whole_number
from cress.simulator.dependencies import in_order
from cress.simulator.files import UNREADABLE
from cress.simulator.tidying import tidy
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.workload import UNDATED_START, After, Bools, Ints, SimulatedCluster, Workload

FIELDS = 18
# Columns from 0: job, submit, wait, run, allocated processors, requested processors, requested time, user
JOB, SUBMIT, WAIT, RUN, ALLOCATED, REQUESTED, LIMIT, USER = 0, 1, 2, 3, 4, 7, 8, 11
MEMORY, PRECEDING, THINK = 9, 16, 17
MOST = 1e12  # larger numbers are mistakes
USED = (JOB, SUBMIT, WAIT, RUN, ALLOCATED, REQUESTED, LIMIT, USER)

Floats = npt.NDArray[np.float64]
CORE = 1000


def load(path: Path, cluster: SimulatedCluster | None) -> Workload:
    """Read a log. Raise ``InputError`` if the file cannot be read or has no job at all."""
    text = _read(path)
    notes = TraceNotes()
    regular = _regular(text)
    if regular is not None:
        header, cells, line = regular
        feedback = _feedback_of(cells, line)
        table, line = _sane(cells[:, USED], line, notes)
    else:
        header, lines, numbers = _split(text, notes)
        feedback = _feedback(lines, numbers)
        table, line = _numbers(lines, numbers, notes)
    if not len(table):
        raise InputError("no job in it", hint="lines of 18 numbers, as in the Standard Workload Format", file=str(path))
    return _workload(path, table, line, header, cluster, notes, feedback)


def _read(path: Path) -> bytes:
    """Return the text, without the byte order mark that some editors write in front of it."""
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as file:
                return file.read().removeprefix(BOM_UTF8)
        return path.read_bytes().removeprefix(BOM_UTF8)
    except UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot be read: {reason}", file=str(path)) from error


def _regular(text: bytes) -> tuple[dict[str, str], Floats, Ints] | None:
    """Return header, numbers ``[n, 18]`` and line numbers of a log with comments only at its begin, then 18 numbers in
    each line; ``None`` for any other log. Most logs are regular, and are read in one piece.
    """
    begin, comments = 0, 0
    while text[begin : begin + 1] == b";":
        end = text.find(b"\n", begin)
        begin, comments = (len(text), comments) if end < 0 else (end + 1, comments + 1)
    body = text[begin:].rstrip()
    signs = np.frombuffer(body, dtype=np.uint8)
    lines = signs == ord("\n")
    blank = lines | (signs == ord(" ")) | (signs == ord("\t")) | (signs == ord("\r"))
    if not len(signs) or not (blank | ((signs >= ord("+")) & (signs <= ord("9")))).all():
        # Only digits, signs and points are looked at here.
        return None
    starts = ~blank
    starts[1:] &= blank[:-1]
    count = int(lines.sum()) + 1
    if (np.bincount(np.cumsum(lines)[starts], minlength=count) != FIELDS).any():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cells: Floats = np.fromstring(body, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    if len(cells) != FIELDS * count:
        return None
    header, _, _ = _split(text[:begin], TraceNotes())
    return header, cells.reshape(count, FIELDS), np.arange(count, dtype=np.int64) + comments + 1


def _feedback_of(cells: Floats, line: Ints) -> _Feedback:
    """Return the columns 10, 17 and 18."""
    found: list[dict[int, float]] = []
    for column in (MEMORY, PRECEDING, THINK):
        there = (cells[:, column] > 0) & (cells[:, column] < MOST)
        found.append(dict(zip(line[there].tolist(), cells[there, column].tolist(), strict=True)))
    memory, preceding, think = found
    whole = {number: int(job) for number, job in preceding.items() if int(job)}
    return _Feedback(whole, think, frozenset(memory))


def _split(text: bytes, notes: TraceNotes) -> tuple[dict[str, str], list[bytes], list[int]]:
    """Return the header's ``Key: value`` pairs, the lines of 18 fields and their line numbers."""
    header: dict[str, str] = {}
    lines, numbers, malformed = [], [], []
    for number, line in enumerate(text.split(b"\n"), start=1):
        if line[:1] == b";":
            key, colon, value = line[1:].decode("utf-8", "replace").partition(":")
            if colon:
                header.setdefault(key.strip(), value.strip())
        elif len(line.split()) == FIELDS:
            lines.append(line)
            numbers.append(number)
        elif line.strip():
            malformed.append(number)
    notes.add("malformed line", malformed)
    return header, lines, numbers


def _numbers(lines: list[bytes], numbers: list[int], notes: TraceNotes) -> tuple[Floats, Ints]:
    """Return the used columns ``[n, 8]`` of the fully numeric lines, and their line numbers."""
    line = np.array(numbers, dtype=np.int64)
    table: Floats
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = np.loadtxt([row.decode("ascii") for row in lines], usecols=USED, comments=None, ndmin=2)
    except (ValueError, UserWarning):
        rows = [_row(row) for row in lines]
        good = np.array([row is not None for row in rows], dtype=np.bool_)
        table = np.array([row for row in rows if row is not None], dtype=np.float64).reshape(-1, len(USED))
        notes.add("malformed line", line[~good].tolist())
        line = line[good]
    return _sane(table, line, notes)


def _sane(table: Floats, line: Ints, notes: TraceNotes) -> tuple[Floats, Ints]:
    """Return the rows of possible numbers, and their lines."""
    # A float holds every integer up to 2^53; real values are far below, and "nan" or "1e300" is no time.
    sane = (np.isfinite(table) & (np.abs(table) < MOST)).all(axis=1)
    notes.add("malformed line", line[~sane].tolist())
    return table[sane], line[sane]


@dataclass(frozen=True)
class _Feedback:
    """The columns that few logs fill, by line.

    These are the number of the preceding job, the think time in seconds, and the lines with requested memory.
    """

    preceding: dict[int, int]
    think: dict[int, float]
    memory: frozenset[int]


def _feedback(lines: list[bytes], numbers: list[int]) -> _Feedback:
    """Return the columns 10, 17 and 18; text in them is ignored, as in every unused column."""
    found: dict[int, dict[int, float]] = {MEMORY: {}, PRECEDING: {}, THINK: {}}
    for number, line in zip(numbers, lines, strict=True):
        cells = line.split()
        for column, values in found.items():
            # Most logs have nothing there.
            if cells[column] != b"-1" and (value := _positive(cells[column])):
                values[number] = value
    preceding = {number: int(job) for number, job in found[PRECEDING].items() if int(job)}
    return _Feedback(preceding, found[THINK], frozenset(found[MEMORY]))


def _positive(cell: bytes) -> float:
    """Return a number above 0, otherwise 0."""
    try:
        value = float(cell)
    except ValueError:
        return 0
    return value if 0 < value < MOST else 0


def _row(line: bytes) -> list[float] | None:
    cells = line.split()
    try:
        return [float(cells[column]) for column in USED]
    except ValueError:
        return None


def _workload(
    path: Path,
    table: Floats,
    line: Ints,
    header: dict[str, str],
    cluster: SimulatedCluster | None,
    notes: TraceNotes,
    feedback: _Feedback,
) -> Workload:
    job, submit, wait, run, allocated, requested, limit, user = table.T
    procs = np.where(requested > 0, requested, allocated)
    keep = np.ones(len(table), dtype=np.bool_)
    for kind, wrong in (
        ("unknown submit time", submit < 0),
        ("unknown run time", run < 0),
        ("zero processors", procs < 1),
    ):
        notes.add(kind, line[keep & wrong].tolist())
        keep &= ~wrong
    if not keep.any():
        raise InputError("no usable job in it", hint="; ".join(notes.sentences()), file=str(path))
    job, submit, wait, run, allocated, limit, user, procs, line = (
        column[keep] for column in (job, submit, wait, run, allocated, limit, user, procs, line)
    )
    # Logs write 0 as well as -1 for what was not given. No real system accepts a limit of 0 s.
    unlimited = limit <= 0
    notes.add("unknown requested time", line[unlimited].tolist())
    run_us = np.rint(run * SECOND).astype(np.int64)
    limit_us = np.where(unlimited, run_us, np.rint(limit * SECOND).astype(np.int64))
    procs = procs.astype(np.int64)
    n = len(job)
    ids = [str(number) for number in job.astype(np.int64).tolist()]
    if len(set(ids)) < n:
        _note_duplicates(ids, line, notes)
    after = _after(ids, line, feedback, notes)
    think = _think(line, after, feedback, notes)
    try:
        order = in_order(after, ids) if after else []
    except InputError as error:
        raise error.at(file=str(path), field="preceding job (column 17)") from None
    notes.add("requested memory", [number for number in line.tolist() if number in feedback.memory])
    if cluster is None:
        used = np.where(allocated > 0, allocated, procs).astype(np.int64)
        first: Floats = np.asarray(submit + np.maximum(wait, 0), dtype=np.float64)
        starts = _starts(first, wait >= 0, np.asarray(run, dtype=np.float64), after, think, order)
        largest, peak = int(procs.max()), _peak(starts, starts + run, used)
        known = bool((wait >= 0).all())
        cluster = _one_node(_processors(header, max(largest, peak), known=known, notes=notes))
    spread = len(cluster.nodes) > 1
    sizes, size_index = np.unique(np.ones_like(procs) if spread else procs, return_inverse=True)
    users, user_index = np.unique(user.astype(np.int64), return_inverse=True)
    utc, zone = _clock(header)
    return tidy(
        Workload(
            name=path.name.removesuffix(".gz").removesuffix(".swf"),
            cluster=cluster,
            ids=ids,
            submit=np.rint(submit * SECOND).astype(np.int64),
            run=run_us,
            limit=limit_us,
            tasks=procs if spread else np.ones(n, dtype=np.int64),
            gang=(procs > 1) if spread else np.zeros(n, dtype=np.bool_),
            killed=np.zeros(n, dtype=np.bool_),
            priority=np.zeros(n, dtype=np.int64),
            request_index=size_index.astype(np.int64),
            requests=[cluster.dimensions.vector(cpu=size * CORE) for size in sizes.tolist()],
            user_index=user_index.astype(np.int64),
            users=[f"user{number}" if number >= 0 else "" for number in users.tolist()],
            group_index=np.zeros(n, dtype=np.int64),
            group_names=[""],
            line=line,
            notes=notes,
            after=after,
            think=think,
            utc=utc,
            zone=zone,
        )
    )


def _after(ids: list[str], line: Ints, feedback: _Feedback, notes: TraceNotes) -> After | None:
    """Return the preceding job of each one (column 17), which must end, in any way, before the job starts."""
    if not feedback.preceding:
        return None
    # The first job, if a number occurs twice.
    place = {job: i for i, job in reversed(list(enumerate(ids)))}
    found: list[tuple[tuple[int, Condition], ...]] = []
    unknown = []
    for number in line.tolist():
        named = feedback.preceding.get(number)
        first = place.get(str(named)) if named else None
        found.append(() if first is None else ((first, Condition.ANY),))
        if named and first is None:
            unknown.append(number)
    notes.add("unknown predecessor", unknown)
    return tuple(found)


def _think(line: Ints, after: After | None, feedback: _Feedback, notes: TraceNotes) -> Ints | None:
    """Return the times between the end of the preceding job and the submission (column 18), in µs.

    Those of jobs without a preceding job are noted and not used.
    """
    if not feedback.think:
        return None
    seconds = np.array([feedback.think.get(number, 0.0) for number in line.tolist()])
    behind = np.array([bool(before) for before in after or [()] * len(line)], dtype=np.bool_)
    notes.add("think time", line[(seconds > 0) & ~behind].tolist())
    return np.where(behind, np.rint(seconds * SECOND), 0).astype(np.int64)


def _note_duplicates(ids: list[str], line: Ints, notes: TraceNotes) -> None:
    seen: set[str] = set()
    again = []
    for job, number in zip(ids, line.tolist(), strict=True):
        if job in seen:
            again.append(number)
        seen.add(job)
    notes.add("duplicate job id", again)


def _processors(header: dict[str, str], peak: int, *, known: bool, notes: TraceNotes) -> int:
    """Return the processors of the machine: those of the header, otherwise the peak of use.

    ``MaxNodes`` counts nodes, which may have several processors: if the log knows all starts (``known``) and used
    more, the peak is taken.
    """
    if (number := _integer(header.get("MaxProcs", ""))) > 0:
        return number
    if (number := _integer(header.get("MaxNodes", ""))) > 0 and (number >= peak or not known):
        return number
    notes.add("number of processors not in the header", count=1, detail=f"{peak:,}")
    return peak


def _starts(
    first: Floats, known: Bools, run: Floats, after: After | None, think: Ints | None, order: list[int]
) -> Floats:
    """Return the starts of all jobs in the log, in seconds.

    A job without a waiting time counts as started at its submission, or after its preceding job and its think time if
    that is later.
    """
    if after is None or known.all():
        return first
    starts: list[float] = first.tolist()
    runs: list[float] = run.tolist()
    pauses: list[float] = [0.0] * len(starts) if think is None else (think / SECOND).tolist()
    for i in order:
        if not known[i]:
            starts[i] = max([starts[i], *(starts[before] + runs[before] + pauses[i] for before, _ in after[i])])
    return np.array(starts)


def _peak(starts: Floats, ends: Floats, used: Ints) -> int:
    """Return the most processors in use at any time; jobs that end at a moment make room for those that start then."""
    times = np.concatenate([ends, starts])
    changes = np.concatenate([-used, used])
    # A stable sort keeps the ends of a moment before its starts. A job without run time occupies nothing.
    lasting = np.concatenate([ends > starts, ends > starts])
    order = np.argsort(times[lasting], kind="stable")
    in_use = np.cumsum(changes[lasting][order])
    return int(in_use.max()) if len(in_use) else 0


def _integer(text: str) -> int:
    """Return the integer at the start of a header value, after which archives add remarks; 0 for mistakes."""
    word = (text.split() or [""])[0]
    number = whole_number(word) or 0
    return number if number < MOST else 0


def _one_node(processors: int) -> SimulatedCluster:
    dimensions = Dimensions()
    return SimulatedCluster(dimensions, (Node(name="machine", capacity=dimensions.vector(cpu=processors * CORE)),))


def _clock(header: dict[str, str]) -> tuple[int, tzinfo]:
    start = _integer(header.get("UnixStartTime", ""))
    zone: tzinfo = UTC
    name = header.get("TimeZoneString", "")
    if name:
        # The import of zoneinfo takes 10 ms, and few logs name a zone.
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            zone = UTC
    return (start * SECOND if start else UNDATED_START), zone
