"""Verification of a SQLite store: its structure, checksums and counts, and a comparison with its commit journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from cress.store.base import Damaged, Saved
from cress.store.commit_journal import COMMITS as JOURNAL
from cress.store.commit_journal import Commits, StoredCommit
from cress.store.sqlite_file import beside, is_whole, opened, told, transaction
from cress.store.sqlite_tables import (
    CLUSTER,
    COMMITS,
    COVERED,
    EPOCH,
    OWN,
    RECORDS,
    SCHEMA,
    TALLY,
    cluster_of,
    counted,
    encode,
    fence,
    note,
    number_of,
    tally_of,
    write_batch,
)

# Maximum number of reported defects of one file.
MOST_TOLD = 10
# Maximum number of lost jobs that are named.
MOST_NAMED = 20


def load(connection: sqlite3.Connection) -> Saved:
    """Return the data with which a center continues, with its checksums verified; call it inside ``told``."""
    execute = connection.execute
    snapshot = execute("SELECT state FROM snapshot").fetchone()
    log = execute("SELECT seq, record FROM log ORDER BY seq")
    notes = execute("SELECT key, value FROM meta")
    return Saved(
        snapshot=None if snapshot is None else opened(snapshot[0], "the snapshot"),
        records=[opened(record, f"record {seq} of the log") for seq, record in log],
        meta={key: opened(value, f"the note {key!r}") for key, value in notes if key not in OWN},
        number=number_of(connection, RECORDS),
        epoch=number_of(connection, EPOCH),
        cluster=cluster_of(connection),
    )


def defects(connection: sqlite3.Connection) -> list[str]:
    """Return the defects of a store as sentences, empty if it is intact; call it inside ``told``."""
    found = connection.execute(f"PRAGMA integrity_check({MOST_TOLD})").fetchall()
    if found != [("ok",)]:
        return [str(text).replace("\n", " ") for (text,) in found]
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return _wrong_numbers(connection) if version == SCHEMA else []


def damaged_runs(connection: sqlite3.Connection) -> list[str]:
    """Return the damaged runs as sentences: their jobs cannot start, all others can."""
    return [
        f"how to run job {job} is not as it was stored"
        for job, run in connection.execute("SELECT job, run FROM runs")
        if not is_whole(run)
    ]


def _wrong_numbers(connection: sqlite3.Connection) -> list[str]:
    there = {key for (key,) in connection.execute("SELECT key FROM meta")}
    missing = [key for key in (EPOCH, RECORDS, COVERED, COMMITS, TALLY) if key not in there]
    if missing:
        return [f"the note {key!r} is missing" for key in missing]
    wrong: list[str] = []
    (count,) = connection.execute("SELECT count(*) FROM log").fetchone()
    records, covered = number_of(connection, RECORDS), number_of(connection, COVERED)
    if records != covered + count:
        wrong.append(f"the log has {count} records, not {records - covered}")
    tally, now = tally_of(connection), counted(connection)
    assert tally is not None
    for name, were, are in (
        ("runs", tally.runs, now.runs),
        ("finished jobs", tally.jobs, now.jobs),
        ("finished attempts", tally.attempts, now.attempts),
    ):
        if were != are:
            wrong.append(f"there are {are} {name}, not {were}")
    if not wrong and tally.total != now.total:
        wrong.append("finished jobs or attempts are not as they were stored")
    return wrong


def missing_commits(path: Path, connection: sqlite3.Connection, journal: Commits | None) -> Sequence[StoredCommit]:
    """Return, in order, the commits that the store in ``path`` lost and its journal has.

    Raises Damaged if the store lost some that cannot be applied again.
    """
    with told(path, "cannot be read"):
        number = number_of(connection, COMMITS)
    if journal is None:
        return ()
    missing = journal.missing(number)
    if missing is None:
        raise Damaged(_lost(path, number, journal))
    return missing


def _lost(path: Path, number: int, journal: Commits) -> str:
    """Return the loss of a store as a sentence."""
    log, commits = beside(path, "-wal"), beside(path, JOURNAL)
    jobs = sorted(
        run
        for at, commit in journal.commits.items()
        if at > number and commit.batch is not None
        for run, _ in commit.batch.runs
    )
    what = f"{log} is damaged or gone, and with it changes {number + 1} to {journal.last} of the store"
    if jobs:
        named = ", ".join(map(str, jobs[:MOST_NAMED])) + ", …" * (len(jobs) > MOST_NAMED)
        what += f" (among them the submits of jobs {named})"
    return f"{what}; {commits} cannot complete it. `cress store restore {path}` goes on without them"


def apply_commit(writer: sqlite3.Connection, commit: StoredCommit) -> None:
    """Write the epoch, the cluster and the batch of a commit, inside a transaction."""
    if commit.epoch:
        fence(writer, commit.epoch)
    if commit.cluster:
        note(writer, {CLUSTER: commit.cluster.encode("ascii")})
    if commit.batch is not None:
        write_batch(writer, commit.batch)


def apply_commits(writer: sqlite3.Connection, commits: Sequence[StoredCommit]) -> None:
    """Apply commits of the journal again, as one transaction; call it inside ``told``."""
    with transaction(writer):
        for commit in commits:
            # The journal has no snapshots: the older one and the longer log give an equal state.
            apply_commit(writer, commit)
        note(writer, {COMMITS: encode(number_of(writer, COMMITS) + len(commits))})
