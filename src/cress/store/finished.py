"""Finished work in a SQLite store: its rows, and a reader on its own connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from cress.model.events import Outcome
from cress.model.records import AttemptRecord, JobRecord, JobState, states_meant
from cress.store.base import EVERY_JOB, JobFilter
from cress.store.sqlite_file import connect, opened, told

# Maximum number of jobs in one query.
AT_ONCE = 500
_JOB = JobRecord.__struct_fields__
JOB_COLUMNS = ", ".join(f'"{name}"' for name in _JOB)
INSERT_JOB = f"INSERT INTO jobs ({JOB_COLUMNS}) VALUES ({', '.join('?' * len(_JOB))})"  # noqa: S608 (our own names)
_ATTEMPT = AttemptRecord.__struct_fields__
ATTEMPT_COLUMNS = ", ".join(_ATTEMPT)
INSERT_ATTEMPT = f"INSERT INTO attempts ({ATTEMPT_COLUMNS}) VALUES ({', '.join('?' * len(_ATTEMPT))})"  # noqa: S608 (our own names)


class SqliteReader:
    """A ``FinishedReader`` of the store in the file ``path``: it never waits for a commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with told(path, "cannot be read"):
            self._reader = connect(path, read_only=True)

    def job(self, job: int) -> JobRecord | None:
        """Return a finished job."""
        with told(self.path, "cannot be read"):
            return find_job(self._reader, job)

    def some(self, ids: Sequence[int]) -> list[JobRecord]:
        """Return the stored ones of these jobs."""
        found: list[JobRecord] = []
        with told(self.path, "cannot be read"):
            for first in range(0, len(ids), AT_ONCE):
                part = ids[first : first + AT_ONCE]
                sql = f"SELECT {JOB_COLUMNS} FROM jobs WHERE id IN ({', '.join('?' * len(part))})"  # noqa: S608 (numbers are bound)
                found += map(job_of, self._reader.execute(sql, part))
        return found

    def run(self, job: int) -> bytes | None:
        """Return the run of a job as stored."""
        with told(self.path, "cannot be read"):
            return find_run(self._reader, job)

    def jobs(self, filters: JobFilter = EVERY_JOB, *, limit: int, before: int | None = None) -> list[JobRecord]:
        """Return finished jobs, newest first; see ``FinishedReader.jobs``."""
        states = sorted(states_meant(filters.state)) if filters.state else []
        where: dict[str, Sequence[object]] = {f'"{name}" = ?': [value] for name, value in filters.values.items()}
        bounds = {"id < ?": before, "submitted >= ?": filters.since, "submitted < ?": filters.until}
        where |= {clause: [value] for clause, value in bounds.items() if value is not None}
        where |= {f"state IN ({', '.join('?' * len(states))})": states} if states else {}
        where |= {} if filters.family else {"NOT (family > 0 AND type IN ('service', 'database'))": []}
        if filters.seen is not None:
            user, groups = filters.seen
            where |= {f'("user" = ? OR "group" IN ({", ".join("?" * len(groups))}))': [user, *groups]}
        sql = f"SELECT {JOB_COLUMNS} FROM jobs"  # noqa: S608 (our own names; values are bound)
        sql += (" WHERE " + " AND ".join(where) if where else "") + " ORDER BY id DESC LIMIT ?"
        values = [*chain.from_iterable(where.values()), limit]
        with told(self.path, "cannot be read"):
            return [job_of(row) for row in self._reader.execute(sql, values)]

    def attempts(self, job: int, first: int, last: int) -> list[AttemptRecord]:
        """Return the finished attempts of tasks ``first`` … ``last`` (included) of a job, by task, oldest first."""
        sql = (
            f"SELECT {ATTEMPT_COLUMNS} FROM attempts "  # noqa: S608 (our own names)
            "WHERE job = ? AND task BETWEEN ? AND ? ORDER BY task, attempt"
        )
        with told(self.path, "cannot be read"):
            return [attempt_of(row) for row in self._reader.execute(sql, (job, first, last))]

    def attempts_on(self, nodes: Sequence[str], *, since: int, until: int, limit: int) -> list[AttemptRecord]:
        """Return finished attempts on nodes; see ``FinishedReader.attempts_on``."""
        sql = (
            f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE ended >= ? AND placed < ? "  # noqa: S608 (our own names)
            f"AND node IN ({', '.join('?' * len(nodes))}) ORDER BY ended DESC LIMIT ?"
        )
        with told(self.path, "cannot be read"):
            return [attempt_of(row) for row in self._reader.execute(sql, (since, until, *nodes, limit))]

    def finished(self, most: int) -> tuple[list[JobRecord], list[AttemptRecord]]:
        """Return finished attempts, then finished jobs, up to ``most``; see ``FinishedReader.finished``."""
        with told(self.path, "cannot be read"):
            rows = self._reader.execute(f"SELECT {ATTEMPT_COLUMNS} FROM attempts LIMIT ?", (most,)).fetchall()  # noqa: S608
            if len(rows) == most:
                return [], [attempt_of(row) for row in rows]
            # A job that ended between the two queries may move before its last attempts; the next call finds those.
            sql = f"SELECT {JOB_COLUMNS} FROM jobs ORDER BY family = 0, id LIMIT ?"  # noqa: S608 (our own names)
            jobs = self._reader.execute(sql, (most,)).fetchall()
        return [job_of(row) for row in jobs], [attempt_of(row) for row in rows]

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()


def find_job(reader: sqlite3.Connection, job: int) -> JobRecord | None:
    """Return a finished job; call it inside ``told``."""
    row = reader.execute(f"SELECT {JOB_COLUMNS} FROM jobs WHERE id = ?", (job,)).fetchone()  # noqa: S608 (our own names)
    return None if row is None else job_of(row)


def find_run(reader: sqlite3.Connection, job: int) -> bytes | None:
    """Return the run of a job as stored; call it inside ``told``."""
    row = reader.execute("SELECT run FROM runs WHERE job = ?", (job,)).fetchone()
    return None if row is None else opened(row[0], f"how to run job {job}")


def rows(records: Iterable[JobRecord | AttemptRecord]) -> Iterator[list[object]]:
    """Return the cells of each record, in the order of its columns."""
    for record in records:
        yield [_cell(getattr(record, name)) for name in record.__struct_fields__]


def _cell(value: object) -> object:
    if isinstance(value, (JobState, Outcome)):
        return value.value
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return int(value) if isinstance(value, bool) else value


def job_of(row: tuple[object, ...]) -> JobRecord:
    """Return a row of the table ``jobs`` as a record."""
    values = dict(zip(_JOB, row, strict=True))
    values["request"] = tuple(map(int, str(values["request"]).split()))
    values["state"] = JobState(values["state"])
    values["gang"] = bool(values["gang"])
    return JobRecord(**values)  # type: ignore[arg-type]


def attempt_of(row: tuple[object, ...]) -> AttemptRecord:
    """Return a row of the table ``attempts`` as a record."""
    values = dict(zip(_ATTEMPT, row, strict=True))
    values["outcome"] = Outcome(values["outcome"])
    values["final"] = bool(values["final"])
    values["ports"] = tuple(map(int, str(values["ports"]).split()))
    values["devices"] = tuple(str(values["devices"]).split())
    return AttemptRecord(**values)  # type: ignore[arg-type]
