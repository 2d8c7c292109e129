"""The history: finished jobs and attempts, and the hourly usage of groups, in any database that SQLAlchemy supports.

All calls can be slow and are made in threads. Adding the same work twice does no harm.
"""

from __future__ import annotations

import functools
import secrets
import threading
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec
import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from cress.model.errors import InputError
from cress.model.events import FAILURES, Outcome
from cress.model.records import AttemptRecord, JobRecord, states_meant
from cress.model.times import HOUR, SECOND
from cress.store.base import EVERY_JOB, JobFilter, StoreError
from cress.store.history_mark import ADDITIONS, ATTEMPTS, IDENTITY, JOBS, SEAL, Mark, seal_of
from cress.store.usage import Usage, Used, Weight, add_usage
from cress.store.work_done import WorkDone

# Maximum number of jobs whose attempts are removed together.
PRUNED = 200
# Maximum number of rows in one query.
AT_ONCE = 500
# Timeouts of a query and of a connection, in seconds.
QUERY, CONNECT = 30, 5

# Ids of jobs in a block, by which two histories are compared. Ids are summed up modulo a prime: no sum is too large.
BLOCK, ID_SUM = 1000, 1_000_003

_Big = sql.BigInteger().with_variant(sql.Integer, "sqlite")
_T = TypeVar("_T", bound=msgspec.Struct)


def _columns(kind: type[msgspec.Struct]) -> Iterator[sql.Column[Any]]:
    """Yield a column for each field of a record; all except the key are nullable, so that later versions
    can add some.
    """
    for field in msgspec.structs.fields(kind):
        wanted = field.type
        if isinstance(wanted, types.UnionType):
            wanted = next(arg for arg in get_args(wanted) if arg is not types.NoneType)
        column_type: Any = sql.Text
        if wanted is int:
            column_type = _Big
        elif wanted is bool:
            column_type = sql.Boolean
        yield sql.Column(field.name, column_type)


_tables = sql.MetaData()
_jobs = sql.Table("jobs", _tables, *_columns(JobRecord), sql.Column("run", sql.LargeBinary), sql.Column(SEAL, _Big))
_attempts = sql.Table("attempts", _tables, *_columns(AttemptRecord), sql.Column(SEAL, _Big))
# The labels of jobs, by which work is added up. They are in the run as well, which no database can read.
_labels = sql.Table(
    "labels",
    _tables,
    sql.Column("job", _Big, primary_key=True),
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)
# Numbers by name: the identity of the database, the number of additions, and of sealed rows.
_marks = sql.Table("marks", _tables, sql.Column("name", sql.Text, primary_key=True), sql.Column("value", _Big))
_usage = sql.Table(
    "usage",
    _tables,
    sql.Column("hour", _Big, primary_key=True),  # its beginning, in seconds since the epoch
    sql.Column("group", sql.Text, primary_key=True),
    sql.Column("core_seconds", sql.Double, nullable=False),
    sql.Column("byte_seconds", sql.Double, nullable=False),
    sql.Column("cpu_seconds", sql.Double, nullable=False),
    sql.Column("attempts", _Big, nullable=False),
    sql.Column("succeeded", _Big, nullable=False),
    # NULL in rows of releases that did not count them.
    sql.Column("failed", _Big),
    sql.Column("met", _Big),
    sql.Column("missed", _Big),
    sql.Column(SEAL, _Big),
)
for _table, _key in ((_jobs, "id"), (_attempts, "attempt")):
    _table.append_constraint(sql.PrimaryKeyConstraint(_key))
sql.Index("jobs_ended", _jobs.c.ended)
sql.Index("jobs_submitted", _jobs.c.submitted)
sql.Index("jobs_group", _jobs.c.group, _jobs.c.id)
sql.Index("jobs_user", _jobs.c.user, _jobs.c.id)
sql.Index("jobs_name", _jobs.c.name, _jobs.c.id)
_by_family = sql.Index("jobs_family", _jobs.c.family, _jobs.c.id)
sql.Index("attempts_task", _attempts.c.job, _attempts.c.task)
_by_node = sql.Index("attempts_node", _attempts.c.node, _attempts.c.ended)


class BlockCounts(NamedTuple):
    """The counts of a block of ids: its jobs and attempts, and sums of their ids."""

    number: int
    jobs: int
    job_ids: int
    attempts: int
    attempt_ids: int


def check_url(url: str) -> str:
    """Return the address of a database for SQLAlchemy. Raises InputError."""
    hint = "such as postgresql://user@host/cress, or sqlite:////srv/cress/history.db"
    try:
        parsed = sql.make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        parsed.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError):
        raise InputError(f"{url!r} is not an address of a database", hint=hint, field="--history") from None
    except ModuleNotFoundError as error:
        extra = "cress[postgres]" if error.name == "psycopg" else error.name
        raise InputError(f"{error.name} is not installed", hint=f"pip install '{extra}'", field="--history") from None
    return parsed.render_as_string(hide_password=False)


class History:
    """A history database, for several threads. Methods raise StoreError with a sentence."""

    def __init__(self, url: str) -> None:
        parsed = sql.make_url(url)
        self.name = parsed.render_as_string(hide_password=True)
        self._adding = threading.Lock()
        arguments: dict[str, Any] = {}
        if parsed.get_backend_name() == "postgresql":
            arguments = {"connect_timeout": CONNECT, "options": f"-c statement_timeout={QUERY * 1000}"}
        self._engine = sql.create_engine(parsed, connect_args=arguments, pool_pre_ping=True)
        if parsed.get_backend_name() == "sqlite":
            sql.event.listen(self._engine, "connect", _prepare_sqlite)
        try:
            with self._told("cannot be opened"):
                self._prepare()
        except BaseException:
            self._engine.dispose()
            raise

    def _prepare(self) -> None:
        """Create missing tables, and columns that a later version added."""
        with self._engine.begin() as connection:
            _tables.create_all(connection)
            inspector = sql.inspect(connection)
            for table in _tables.sorted_tables:
                there = {column["name"] for column in inspector.get_columns(table.name)}
                for column in table.columns:
                    if column.name not in there:
                        words = sql.schema.CreateColumn(column).compile(dialect=connection.dialect)
                        connection.execute(sql.text(f'ALTER TABLE "{table.name}" ADD COLUMN {words}'))
            for added in (_by_family, _by_node):
                added.create(connection, checkfirst=True)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise StoreError(f"the history {self.name} {what}: {cause}") from error

    # --- adding and removing -----------------------------------------------------------------------------------

    def add(
        self,
        jobs: Sequence[tuple[JobRecord, bytes | None]],
        attempts: Sequence[AttemptRecord],
        weights: Mapping[int, Weight],
        met: Mapping[int, bool] = MappingProxyType({}),
    ) -> Mark:
        """Add finished work that is not stored yet, and its usage; ``weights`` by job, for all the attempts.

        ``met`` has, for jobs with a deadline, the flag that they met it. Return the new mark of the history.
        """
        with self._told("cannot be written"):
            # What is known is looked up before the transaction begins to write.
            with self._adding, self._engine.begin() as connection:
                mark = self._add(connection, jobs, attempts, weights, met)
            if self._engine.dialect.name == "sqlite":
                # Data in the main file survives the loss of the write-ahead file. A statement whose rows are not read
                # goes on, and the next transaction of its connection cannot be committed.
                with self._engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA busy_timeout=200").all()
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all()
                    connection.exec_driver_sql("PRAGMA busy_timeout=10000").all()
        return mark

    def _add(
        self,
        connection: sql.Connection,
        jobs: Sequence[tuple[JobRecord, bytes | None]],
        attempts: Sequence[AttemptRecord],
        weights: Mapping[int, Weight],
        met: Mapping[int, bool],
    ) -> Mark:
        known = _known(connection, _attempts.c.attempt, [attempt.attempt for attempt in attempts])
        fresh = [attempt for attempt in attempts if attempt.attempt not in known]
        if fresh:
            connection.execute(sql.insert(_attempts), [_sealed(_row(attempt)) for attempt in fresh])
            _add_to_usage(connection, fresh, weights)
        known = _known(connection, _jobs.c.id, [job.id for job, _ in jobs])
        rows = [_sealed(_row(job) | {"run": run}) for job, run in jobs if job.id not in known]
        if rows:
            connection.execute(sql.insert(_jobs), rows)
            _add_labels(connection, [(job.id, run) for job, run in jobs if run is not None and job.id not in known])
            _add_deadlines(connection, [job for job, _ in jobs if job.id not in known and job.id in met], met)
        _raise(connection, JOBS, len(rows))
        _raise(connection, ATTEMPTS, len(fresh))
        _raise(connection, IDENTITY, 0, secrets.randbits(62))
        _raise(connection, ADDITIONS, 1)
        return _mark_of(connection)

    def blocks(self, since: int) -> list[BlockCounts]:
        """Return the counts of each block that has jobs or attempts that ended from ``since`` (µs) on."""
        counts: dict[int, list[int]] = {}
        for at, ended, block, id in (
            (0, _jobs.c.ended, _jobs.c.id // BLOCK, _jobs.c.id),
            (2, _attempts.c.ended, _attempts.c.job // BLOCK, _attempts.c.attempt),
        ):
            number = block.label("block")
            columns = number, sql.func.count().label("count"), sql.func.sum(id % ID_SUM).label("ids")
            for row in self._select(sql.select(*columns).where(ended >= since).group_by(number)):
                counts.setdefault(int(row["block"]), [0, 0, 0, 0])[at : at + 2] = int(row["count"]), int(row["ids"])
        return [BlockCounts(number, *counts[number]) for number in sorted(counts)]

    def block(
        self, number: int, *, since: int, after: int, limit: int
    ) -> tuple[list[tuple[JobRecord, bytes | None]], list[AttemptRecord]]:
        """Return the jobs of a block, on its first page (``after`` 0), and at most ``limit`` of its attempts, by
        number.
        """
        first, last = number * BLOCK, (number + 1) * BLOCK - 1
        jobs = (
            []
            if after
            else self._select(sql.select(_jobs).where(_jobs.c.id.between(first, last), _jobs.c.ended >= since))
        )
        query = sql.select(_attempts).where(
            _attempts.c.job.between(first, last), _attempts.c.ended >= since, _attempts.c.attempt > after
        )
        attempts = self._select(query.order_by(_attempts.c.attempt).limit(limit))
        return [_job(row) for row in jobs], [_record(AttemptRecord, row) for row in attempts]

    def mark(self) -> Mark:
        """Return the mark of the history; its identity is 0 before the first addition."""
        with self._told("cannot be read"), self._engine.connect() as connection:
            return _mark_of(connection)

    def prune(self, before: int) -> int:
        """Remove up to 200 jobs that ended before ``before`` (µs since the epoch), with their attempts; return their
        number.
        """
        with self._told("cannot be written"), self._engine.begin() as connection:
            old = sql.select(_jobs.c.id).where(_jobs.c.ended < before).order_by(_jobs.c.ended).limit(PRUNED)
            ids = list(connection.scalars(old))
            if ids:
                connection.execute(sql.delete(_labels).where(_labels.c.job.in_(ids)))
                for table, key, name in ((_attempts, _attempts.c.job, ATTEMPTS), (_jobs, _jobs.c.id, JOBS)):
                    count = sql.select(sql.func.count()).where(key.in_(ids), table.c[SEAL].is_not(None))
                    _raise(connection, name, -int(connection.scalar(count) or 0))
                    connection.execute(sql.delete(table).where(key.in_(ids)))
            return len(ids)

    def prune_usage(self, before: int) -> int:
        """Remove the hours before ``before`` (µs since the epoch); return the number of rows."""
        with self._told("cannot be written"), self._engine.begin() as connection:
            return connection.execute(
                sql.delete(_usage).where(_usage.c.hour < before // SECOND - HOUR // SECOND)
            ).rowcount

    # --- looking up --------------------------------------------------------------------------------------------

    def job(self, id: int) -> tuple[JobRecord, bytes | None] | None:
        """Return a job and its run."""
        found = self._select(sql.select(_jobs).where(_jobs.c.id == id))
        return _job(found[0]) if found else None

    def some(self, ids: Sequence[int]) -> list[tuple[JobRecord, bytes | None]]:
        """Return the stored ones of these jobs with their runs, in any order."""
        found: list[tuple[JobRecord, bytes | None]] = []
        for first in range(0, len(ids), AT_ONCE):
            part = ids[first : first + AT_ONCE]
            found += map(_job, self._select(sql.select(_jobs).where(_jobs.c.id.in_(part))))
        return found

    def jobs(
        self, filters: JobFilter = EVERY_JOB, *, limit: int, before: int | None = None
    ) -> list[tuple[JobRecord, bytes | None]]:
        """Return at most ``limit`` jobs that pass, with an id below ``before``, and their runs, newest first."""
        query = sql.select(_jobs).order_by(_jobs.c.id.desc()).limit(limit)
        query = query.where(*(_jobs.c[name] == value for name, value in filters.values.items()))
        if filters.state:
            query = query.where(_jobs.c.state.in_(sorted(states_meant(filters.state))))
        if not filters.family:
            member = sql.func.coalesce(_jobs.c.family, 0) > 0
            query = query.where(~(member & _jobs.c.type.in_(("service", "database"))))
        if filters.seen is not None:
            user, groups = filters.seen
            query = query.where((_jobs.c.user == user) | _jobs.c.group.in_(groups))
        if before is not None:
            query = query.where(_jobs.c.id < before)
        if filters.since is not None:
            query = query.where(_jobs.c.submitted >= filters.since)
        if filters.until is not None:
            query = query.where(_jobs.c.submitted < filters.until)
        return [_job(row) for row in self._select(query)]

    def attempts(self, job: int, first: int, last: int) -> list[AttemptRecord]:
        """Return the attempts of the tasks ``first`` … ``last`` (included) of a job, by task, oldest first."""
        query = sql.select(_attempts).where(_attempts.c.job == job, _attempts.c.task.between(first, last))
        rows = self._select(query.order_by(_attempts.c.task, _attempts.c.attempt))
        return [_record(AttemptRecord, row) for row in rows]

    def attempts_on(self, nodes: Sequence[str], *, since: int, until: int, limit: int) -> list[AttemptRecord]:
        """Return attempts on nodes; see ``FinishedReader.attempts_on``."""
        query = sql.select(_attempts).where(
            _attempts.c.node.in_(nodes), _attempts.c.ended >= since, _attempts.c.placed < until
        )
        rows = self._select(query.order_by(_attempts.c.ended.desc()).limit(limit))
        return [_record(AttemptRecord, row) for row in rows]

    def usage(self, *, since: int, until: int, group: str = "") -> Usage:
        """Return the usage of groups in the hours that begin in ``since`` … ``until`` (excluded; seconds since the
        epoch).
        """
        query = sql.select(_usage).where(_usage.c.hour >= since, _usage.c.hour < until)
        if group:
            query = query.where(_usage.c.group == group)
        found: Usage = {}
        for row in self._select(query.order_by(_usage.c.hour, _usage.c.group)):
            key = row["hour"], row["group"]
            found[key] = Used(**{name: row[name] or 0 for name in Used.__struct_fields__})
            counted = row["failed"]
            found[key].failed = found[key].attempts - found[key].succeeded if counted is None else counted
        return found

    def work_done(self, filters: JobFilter, *, since: int, until: int, label: str = "") -> list[WorkDone]:
        """Return the work of the jobs that pass and ended in ``since`` … ``until`` (µs since the epoch; excluded).

        Of ``filters``, ``values`` and ``seen`` count. With the name of a label, work with different values of it is
        apart.
        """
        key = (_jobs.c.name, _jobs.c.user, _jobs.c.group, _jobs.c.request, *((_labels.c.value,) if label else ()))
        query = (
            sql.select(
                *key,
                sql.func.count(sql.distinct(_jobs.c.id)).label("jobs"),
                sql.func.count().label("attempts"),
                sql.func.sum(_attempts.c.ended - _attempts.c.placed).label("run"),
                sql.func.sum(_attempts.c.cpu).label("cpu"),
                sql.func.max(_attempts.c.memory).label("peak"),
            )
            .select_from(_labelled(label).join(_attempts, _attempts.c.job == _jobs.c.id))
            .where(_jobs.c.ended >= since, _jobs.c.ended < until, _attempts.c.started > 0)
            .group_by(*key)
            .order_by(*key)
        )
        query = query.where(*(_jobs.c[name] == value for name, value in filters.values.items()))
        if filters.seen is not None:
            user, groups = filters.seen
            query = query.where((_jobs.c.user == user) | _jobs.c.group.in_(groups))
        return [
            WorkDone(
                name=row["name"],
                user=row["user"],
                group=row["group"],
                request=tuple(msgspec.json.decode(row["request"])),
                jobs=row["jobs"],
                attempts=row["attempts"],
                # PostgreSQL adds up big integers as decimals.
                run=int(row["run"]),
                cpu=int(row["cpu"] or 0),
                peak=row["peak"] or 0,
                label=(row["value"] or "") if label else "",
            )
            for row in self._select(query)
        ]

    def _select(self, query: sql.Select[Any]) -> Sequence[sql.RowMapping]:
        with self._told("cannot be read"), self._engine.connect() as connection:
            return connection.execute(query).mappings().all()


def _prepare_sqlite(connection: Any, _: object) -> None:
    # Moved work is removed from the store, so it must be as durable here as it was there.
    for words in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {words}")


def _raise(connection: sql.Connection, name: str, by: int, first: int = 0) -> None:
    """Raise a number among the marks by ``by``; ``first`` is its initial value."""
    here = _marks.c.name == name
    if not connection.execute(sql.update(_marks).where(here).values(value=_marks.c.value + by)).rowcount:
        connection.execute(sql.insert(_marks).values(name=name, value=first + by))


def _mark_of(connection: sql.Connection) -> Mark:
    numbers = {str(name): int(value) for name, value in connection.execute(sql.select(_marks.c.name, _marks.c.value))}
    return Mark(numbers.get(IDENTITY, 0), numbers.get(ADDITIONS, 0))


def _known(connection: sql.Connection, column: sql.Column[Any], values: Sequence[int]) -> set[int]:
    """Return the values that are in the column."""
    found: set[int] = set()
    for first in range(0, len(values), AT_ONCE):
        found.update(connection.scalars(sql.select(column).where(column.in_(values[first : first + AT_ONCE]))))
    return found


def _add_to_usage(connection: sql.Connection, attempts: Iterable[AttemptRecord], weights: Mapping[int, Weight]) -> None:
    usage: Usage = {}
    for attempt in attempts:
        weight = weights[attempt.job]
        hour = add_usage(usage, weight, attempt.placed, max(attempt.placed, attempt.ended), attempt.cpu)
        last = usage[hour, weight.group]
        last.attempts += 1
        last.succeeded += attempt.outcome is Outcome.SUCCEEDED
        last.failed += attempt.outcome in FAILURES or (attempt.outcome is Outcome.LOST and attempt.final)
    _raise_usage(connection, usage)


def _labelled(label: str) -> sql.FromClause:
    """Return the jobs, each with its value of a label if one is asked for."""
    if not label:
        return _jobs
    return _jobs.outerjoin(_labels, (_labels.c.job == _jobs.c.id) & (_labels.c.name == label))


class _RunLabels(msgspec.Struct):
    """The labels of a run; its other fields are not read."""

    labels: tuple[tuple[str, str], ...] = ()


_decode_run_labels = msgspec.msgpack.Decoder(_RunLabels).decode


def _labels_in(run: bytes) -> tuple[tuple[str, str], ...]:
    """Return the labels of a run. One that cannot be read is kept as it is; it has none."""
    try:
        return _decode_run_labels(run).labels
    except msgspec.MsgspecError:
        return ()


def _add_labels(connection: sql.Connection, runs: Iterable[tuple[int, bytes]]) -> None:
    rows = [{"job": job, "name": name, "value": _cell(value)} for job, run in runs for name, value in _labels_in(run)]
    if rows:
        # Rows of a job that was removed by a release without this table may be left.
        for first in range(0, len(rows), AT_ONCE):
            ids = {row["job"] for row in rows[first : first + AT_ONCE]}
            connection.execute(sql.delete(_labels).where(_labels.c.job.in_(ids)))
        connection.execute(sql.insert(_labels), rows)


def _add_deadlines(connection: sql.Connection, jobs: Iterable[JobRecord], met: Mapping[int, bool]) -> None:
    """Count the deadlines of jobs in the hours in which they ended."""
    usage: Usage = {}
    for job in jobs:
        used = usage.setdefault((job.ended // HOUR * HOUR // SECOND, job.group), Used())
        used.met += met[job.id]
        used.missed += not met[job.id]
    _raise_usage(connection, usage)


def _raise_usage(connection: sql.Connection, usage: Usage) -> None:
    for (hour, group), used in sorted(usage.items()):
        here = (_usage.c.hour == hour) & (_usage.c.group == group)
        row: dict[str, Any] = {"hour": hour, "group": group, **msgspec.structs.asdict(used)}
        found = connection.execute(sql.select(_usage).where(here)).mappings().first()
        if found is None:
            connection.execute(sql.insert(_usage).values(_sealed(row)))
            continue
        # Of hours that an older release has counted in part.
        known = {"failed": found["attempts"] - found["succeeded"], "met": 0, "missed": 0}
        for name in Used.__struct_fields__:
            row[name] += known[name] if found[name] is None else found[name]
        connection.execute(sql.update(_usage).where(here).values(_sealed(row)))


def _sealed(row: dict[str, Any]) -> dict[str, Any]:
    return row | {SEAL: seal_of(row)}


def _row(record: msgspec.Struct) -> dict[str, Any]:
    row = msgspec.structs.asdict(record)
    for name in _no_numbers(type(record)):
        row[name] = _cell(row[name])
    return row


@functools.cache
def _no_numbers(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a record that a database may not take as they are; numbers are most of them."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type not in (int, bool, int | None))


def _cell(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return msgspec.json.encode(value).decode()
    # Databases refuse NUL, which occurs in errors of programs.
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _job(row: sql.RowMapping) -> tuple[JobRecord, bytes | None]:
    run = row["run"]
    return _record(JobRecord, row), None if run is None else bytes(run)


def _record(kind: type[_T], row: Mapping[Any, Any]) -> _T:
    if row[SEAL] is not None and row[SEAL] != seal_of(row):
        number = row["id" if kind is JobRecord else "attempt"]
        raise StoreError(f"the history is damaged: {kind.__name__[:-6].lower()} {number} is not as it was stored")
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        value = row[field.name]
        if value is None and not field.required:
            continue
        if getattr(field.type, "__origin__", None) is tuple:
            value = msgspec.json.decode(value)
        values[field.name] = value
    return msgspec.convert(values, kind)
