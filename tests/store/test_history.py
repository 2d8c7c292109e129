"""The history: what is added can be looked up, twice is once, usage adds up, what is old goes. On real databases."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sql
from hypothesis import given
from hypothesis import strategies as st

from cress.model.errors import InputError
from cress.model.events import Outcome
from cress.model.records import AttemptRecord, JobRecord, JobState
from cress.model.run import Run
from cress.model.times import HOUR, SECOND
from cress.store.base import JobFilter, StoreError
from cress.store.history import History, check_url
from cress.store.history_mark import check_history, seal_of, write_mark
from cress.store.usage import Usage, Used, Weight, add_usage
from tests.store.test_sqlite import attempt, record

WEIGHT = Weight("lab", 2000, 1024)


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)],
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/history.db"
        return
    yield check_url(request.getfixturevalue("postgresql").database())


@pytest.fixture
def history(url: str) -> Iterator[History]:
    opened = History(url)
    yield opened
    opened.close()


def test_the_seal_of_a_row_is_that_of_earlier_releases() -> None:
    """In any order of the cells; empty ones do not count, and truth is a number, as some databases have it."""
    cells = {"b": True, "a": 7, "seal": 1, "c": None, "d": "é", "e": False}
    assert seal_of(cells) == seal_of(dict(reversed(cells.items()))) == 2256272529
    assert seal_of(cells | {"b": 1, "e": 0}) == seal_of(cells)


def test_what_is_added_can_be_looked_up(history: History) -> None:
    job = record(7, time_limit=5, gang=True, name="ünï ☂", priority=-3)
    attempts = [attempt(1, 7, 0, Outcome.LOST), attempt(2, 7, 0), attempt(3, 7, 1)]
    history.add([(job, b"run")], attempts, {7: WEIGHT})
    assert history.job(7) == (job, b"run")
    assert history.job(8) is None
    assert history.attempts(7, 0, 0) == attempts[:2]
    assert history.attempts(7, 1, 9) == attempts[2:]


def test_a_character_that_databases_refuse_is_replaced(history: History) -> None:
    history.add([], [msgspec.structs.replace(attempt(1, 7, 0), error="a\0b")], {7: WEIGHT})
    assert history.attempts(7, 0, 0)[0].error == "a\ufffdb"


def test_two_histories_are_compared_by_blocks_and_one_gets_what_it_lacks(history: History, tmp_path: Path) -> None:
    jobs = [record(number, ended=number) for number in (1, 2, 1000, 2500)]
    attempts = [attempt(10 * job.id, job.id, 0) for job in jobs]
    ended = [msgspec.structs.replace(each, ended=each.job) for each in attempts]
    history.add([(job, b"run") for job in jobs], ended, dict.fromkeys((1, 2, 1000, 2500), WEIGHT))
    with closing(History(f"sqlite:///{tmp_path}/other.db")) as other:
        other.add([(jobs[1], None), (jobs[3], None)], [ended[1], ended[3]], dict.fromkeys((2, 2500), WEIGHT))
        blocks = {each.number: each for each in history.blocks(0)}
        there = {each.number: each for each in other.blocks(0)}
        assert [number for number in blocks if blocks[number] != there.get(number)] == [0, 1]
        assert (blocks[0].jobs, blocks[0].attempts, blocks[2]) == (2, 2, there[2])
        # Older work is not compared, since it may be removed.
        assert [each.number for each in history.blocks(1000)] == [1, 2]
        for number in (0, 1):
            found, some = history.block(number, since=0, after=0, limit=1)
            other.add(found, some, dict.fromkeys((1, 2, 1000), WEIGHT))
            rest = history.block(number, since=0, after=some[-1].attempt, limit=9)
            assert rest[0] == []
            other.add(*rest, dict.fromkeys((1, 2, 1000), WEIGHT))
        assert other.blocks(0) == history.blocks(0)
        used = [each.usage(since=0, until=10**9)[0, "lab"] for each in (other, history)]
        assert used[0].attempts == used[1].attempts == 4
        assert used[0].core_seconds == pytest.approx(used[1].core_seconds)


def test_jobs_by_filters_newest_first(history: History) -> None:
    jobs = [
        record(1, group="web", submitted=10),
        record(2, user="bob", submitted=20),
        record(3, state=JobState.FAILED, submitted=30),
        record(4, name="x", submitted=40),
    ]
    history.add([(job, None) for job in jobs], [], {})

    def ids(limit: int = 9, before: int | None = None, **filters: Any) -> list[int]:
        return [job.id for job, _ in history.jobs(JobFilter(**filters), limit=limit, before=before)]

    assert ids() == [4, 3, 2, 1]
    assert ids(limit=2) == [4, 3]
    assert ids(before=3) == [2, 1]
    assert ids(group="web", user="") == [1]
    assert ids(user="bob") == [2]
    assert ids(state="failed") == [3]
    assert ids(name="x") == [4]
    assert ids(since=20, until=40) == [3, 2]


def test_the_same_twice_is_there_once_and_is_used_once(history: History) -> None:
    attempts = [_ran(1, 0, HOUR), _ran(2, HOUR, 2 * HOUR)]
    for _ in range(2):
        history.add([(record(7), None)], attempts, {7: WEIGHT})
    history.add([], [*attempts, _ran(3, 0, HOUR)], {7: WEIGHT})
    assert [each.attempt for each in history.attempts(7, 0, 9)] == [1, 2, 3]
    usage = history.usage(since=0, until=10**9)
    assert sum(used.core_seconds for used in usage.values()) == pytest.approx(3 * 3600 * 2)
    assert sum(used.attempts for used in usage.values()) == 3


def test_no_statement_of_an_addition_goes_on_after_it(url: str) -> None:
    """One that did would make the next addition fail for as long as its cursor lives."""
    with closing(History(url)) as history:
        cursors: list[object] = []
        sql.event.listen(history._engine, "after_cursor_execute", lambda *told: cursors.append(told[1]))
        for number in (1, 2):
            history.add([(record(number), b"run")], [attempt(number, number, 0)], {number: WEIGHT})
        assert cursors
        assert history.mark().additions == 2


def test_usage_by_hour_and_group(history: History) -> None:
    half = HOUR // 2
    history.add([], [_ran(1, half, 2 * HOUR + half, cpu=600 * SECOND)], {7: WEIGHT})
    history.add([], [_ran(2, HOUR, HOUR + half, outcome=Outcome.FAILED, job=8)], {8: Weight("web", 500, 0)})
    assert history.usage(since=0, until=9 * 3600) == {
        (0, "lab"): Used(3600.0, 1800.0 * 1024, 150.0),
        (3600, "lab"): Used(7200.0, 3600.0 * 1024, 300.0),
        (3600, "web"): Used(900.0, 0.0, 0.0, 1, 0, 1),
        (7200, "lab"): Used(3600.0, 1800.0 * 1024, 150.0, 1, 1),
    }
    assert list(history.usage(since=3600, until=7200, group="web")) == [(3600, "web")]


@pytest.mark.parametrize(
    ("outcome", "failed"),
    [
        (Outcome.FAILED, 1),
        (Outcome.TIMED_OUT, 1),
        (Outcome.OUT_OF_MEMORY, 1),
        (Outcome.LOST, 1),
        (Outcome.CANCELLED, 0),
        (Outcome.PREEMPTED, 0),
    ],
)
def test_usage_tells_failures_from_what_was_stopped(history: History, outcome: Outcome, failed: int) -> None:
    history.add([], [_ran(1, 0, HOUR - 1, outcome=outcome), _ran(2, 0, HOUR - 1)], {7: WEIGHT})
    (used,) = history.usage(since=0, until=3600).values()
    assert (used.attempts, used.succeeded, used.failed) == (2, 1, failed)


def test_usage_counts_deadlines_where_their_jobs_ended(history: History) -> None:
    jobs = [record(number, ended=at, group="web") for number, at in ((1, 0), (2, HOUR - 1), (3, HOUR), (4, HOUR))]
    for _ in range(2):
        history.add([(job, None) for job in jobs], [], {}, {1: True, 2: False, 3: True})
    usage = history.usage(since=0, until=9 * 3600)
    assert {key: (used.met, used.missed, used.attempts) for key, used in usage.items()} == {
        (0, "web"): (1, 1, 0),
        (3600, "web"): (1, 0, 0),
    }


def test_hours_that_did_not_count_deadlines_go_on(history: History) -> None:
    history.add([], [_ran(1, 0, HOUR - 1)], {7: Weight("web", 500, 0)})
    with history._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE usage SET met = NULL, missed = NULL")
    (used,) = history.usage(since=0, until=3600).values()
    assert (used.attempts, used.met, used.missed) == (1, 0, 0)
    history.add([(record(1, ended=5, group="web"), None)], [], {}, {1: False})
    (used,) = history.usage(since=0, until=3600).values()
    assert (used.attempts, used.met, used.missed) == (1, 0, 1)


def test_hours_of_an_older_release_count_as_before_and_go_on(history: History) -> None:
    history.add([], [_ran(1, 0, HOUR - 1, outcome=Outcome.CANCELLED)], {7: WEIGHT})
    with history._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE usage SET failed = NULL")
    (used,) = history.usage(since=0, until=3600).values()
    assert (used.attempts, used.failed) == (1, 1)
    history.add([], [_ran(2, 0, HOUR - 1), _ran(3, 0, HOUR - 1, outcome=Outcome.FAILED)], {7: WEIGHT})
    (used,) = history.usage(since=0, until=3600).values()
    assert (used.attempts, used.failed) == (3, 2)


def test_what_is_old_goes_with_all_of_its(history: History) -> None:
    for id in range(1, 251):
        history.add([(record(id, ended=id), None)], [attempt(id, id, 0)], {id: WEIGHT})
    assert history.prune(before=231) == 200
    assert history.prune(before=231) == 30
    assert history.prune(before=231) == 0
    assert [job.id for job, _ in history.jobs(limit=999)] == list(range(250, 230, -1))
    assert history.attempts(230, 0, 0) == []
    assert len(history.attempts(231, 0, 0)) == 1
    assert history.prune_usage(HOUR) == 0
    assert history.prune_usage(3 * HOUR) == 1
    assert history.usage(since=0, until=10**9) == {}


def test_a_history_is_opened_again_and_gets_columns_that_are_new(url: str) -> None:
    first = History(url)
    first.add([(record(1), b"x")], [attempt(1, 1, 0)], {1: WEIGHT})
    with first._engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE attempts DROP COLUMN memory")
        for table in ("attempts", "jobs"):
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN seal")
    first.close()
    again = History(url)
    assert again.attempts(1, 0, 0) == [attempt(1, 1, 0)]
    assert again.job(1) == (record(1), b"x")
    again.close()


def test_a_row_that_was_changed_is_noticed_and_additions_are_counted(url: str) -> None:
    history = History(url)
    marks = [history.add([(record(number), b"x")], [], {}) for number in (1, 2)]
    assert marks[0].identity == marks[1].identity == history.mark().identity != 0
    assert (marks[0].additions, marks[1].additions) == (1, 2)
    with history._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE jobs SET name = 'other' WHERE id = 1")
    with pytest.raises(StoreError, match="job 1 is not as it was stored"):
        history.job(1)
    assert history.job(2) == (record(2), b"x")
    history.close()


def _ran(
    id: int, begin: int, end: int, *, job: int = 7, outcome: Outcome = Outcome.SUCCEEDED, cpu: int = 0
) -> AttemptRecord:
    return AttemptRecord(
        attempt=id, job=job, task=0, node="n", outcome=outcome, final=True, placed=begin, started=begin, ended=end,
        cpu=cpu,
    )  # fmt: skip


@given(begin=st.integers(0, 10 * HOUR), length=st.integers(0, 30 * HOUR), cpu=st.integers(0, HOUR))
def test_the_parts_of_the_hours_are_the_whole(begin: int, length: int, cpu: int) -> None:
    usage: Usage = {}
    last = add_usage(usage, Weight("g", 1000, 1), begin, begin + length, cpu)
    assert (last, "g") in usage
    assert sum(used.core_seconds for used in usage.values()) == pytest.approx(length / SECOND)
    assert sum(used.cpu_seconds for used in usage.values()) == pytest.approx(cpu / SECOND)
    assert all(used.core_seconds <= 3600 for used in usage.values())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("somewhere", "'somewhere' is not an address of a database"),
        ("oraculum://x", "is not an address of a database"),
        ("mysql://x/y", "is not installed"),
    ],
)
def test_addresses_that_are_none(url: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_url(url)


def test_a_database_that_is_away_is_told_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the history postgresql.*\*\*\*.* cannot be opened: connection"):
        History(check_url(f"postgresql://cress:secret@/cress?host={tmp_path}"))


def test_records_survive_with_every_field(history: History) -> None:
    job = JobRecord(
        id=2**52, name="n", group="g", user="u", type="batch", tasks=10**7, gang=False, priority=-(10**9),
        time_limit=2**60, request=(1, 2**60, 3), state=JobState.CANCELLED, submitted=2**51, started=0, ended=2**51,
        succeeded=1, failed=2, cancelled=3, preempted=4, requirement='Rack = "ü"', rank="CPU", application="shop",
    )  # fmt: skip
    attempt = AttemptRecord(
        attempt=2**52, job=2**52, task=3, node="n", outcome=Outcome.LOST, final=True, placed=1, started=0, ended=2,
        code=None, error="lost", cpu=1, memory=2**50, ports=(80, 65535),
        devices=("gpu:0", "gpu:1:460", "disk:ü:0"),
    )  # fmt: skip
    history.add([(job, None)], [attempt], {job.id: WEIGHT})
    assert history.job(job.id) == (job, None)
    assert history.attempts(job.id, 0, 9) == [attempt]


def test_usage_that_was_changed_is_noticed(tmp_path: Path) -> None:
    file, mark = tmp_path / "history.db", tmp_path / "history.mark"
    history = History(check_url(f"sqlite:///{file}"))
    history.add([(record(1), None)], [attempt(1, 1, 0)], {1: WEIGHT})
    history.add([(record(2), None)], [attempt(2, 2, 0)], {2: WEIGHT})
    history.close()
    check_history(file, mark, deep=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE usage SET core_seconds = core_seconds + 1")
        connection.commit()
    with pytest.raises(StoreError, match=r"the usage of group .* is not as it was stored .put a copy of it back"):
        check_history(file, mark, deep=True)


def test_a_cut_history_names_itself_and_its_own_way_out(tmp_path: Path) -> None:
    file, mark = tmp_path / "history.db", tmp_path / "history.mark"
    history = History(check_url(f"sqlite:///{file}"))
    written = history.add([(record(1), None)], [attempt(1, 1, 0)], {1: WEIGHT})
    history.close()
    write_mark(mark, written)
    os.truncate(file, file.stat().st_size * 2 // 3)
    with pytest.raises(StoreError) as refused:
        check_history(file, mark, deep=True)
    assert str(refused.value).startswith(f"the history {file} is damaged: ")
    assert "cress store restore" not in str(refused.value)
    assert f"remove {file} and {mark}, to begin an empty one" in str(refused.value)
    # What the message says.
    file.unlink()
    mark.unlink()
    check_history(file, mark, deep=True)


def test_work_is_added_up_by_name_user_group_and_request(history: History) -> None:
    """Attempts that never ran do not count, nor do jobs that ended at another time or are not seen."""
    jobs = [
        record(1, name="a", user="ann", request=(1000, 5), ended=10),
        record(2, name="a", user="ann", request=(1000, 5), ended=20),
        record(3, name="a", user="ann", request=(2000, 5), ended=20),
        record(4, name="a", user="bob", group="web", request=(1000, 5), ended=20),
        record(5, name="a", user="ann", request=(1000, 5), ended=30),
    ]
    made = [
        msgspec.structs.replace(attempt(1, 1, 0), started=2, placed=1, ended=5, cpu=3, memory=70),
        msgspec.structs.replace(attempt(2, 1, 0), started=2, placed=1, ended=6, cpu=1, memory=60),
        msgspec.structs.replace(attempt(3, 2, 0), started=0, placed=1, ended=900),
        msgspec.structs.replace(attempt(4, 2, 0), started=2, placed=2, ended=4, cpu=0, memory=0),
        msgspec.structs.replace(attempt(5, 3, 0), started=1, placed=1, ended=2),
        msgspec.structs.replace(attempt(6, 4, 0), started=1, placed=1, ended=2),
        msgspec.structs.replace(attempt(7, 5, 0), started=1, placed=1, ended=2),
    ]
    history.add([(job, None) for job in jobs], made, {job.id: WEIGHT for job in jobs})
    found = history.work_done(JobFilter(), since=10, until=30)
    assert [(part.user, part.request, part.jobs, part.attempts, part.run) for part in found] == [
        ("ann", (1000, 5), 2, 3, 11), ("ann", (2000, 5), 1, 1, 1), ("bob", (1000, 5), 1, 1, 1),
    ]  # fmt: skip
    assert (found[0].cpu, found[0].peak) == (4, 70)
    assert [part.user for part in history.work_done(JobFilter(user="bob"), since=0, until=99)] == ["bob"]
    assert [part.user for part in history.work_done(JobFilter(seen=("zoe", ("web",))), since=0, until=99)] == ["bob"]


def test_work_is_added_up_by_a_label(history: History) -> None:
    runs = {1: {"team": "red", "tier": "db"}, 2: {"team": "blue"}, 3: {}, 4: {"team": "red"}}
    jobs = [
        (record(id), msgspec.msgpack.encode(Run(job=id, command=("x",), labels=tuple(sorted(labels.items())))))
        for id, labels in runs.items()
    ]
    made = [msgspec.structs.replace(attempt(id, id, 0), started=1, placed=1, ended=1 + id) for id in runs]
    # Whatever is added twice counts once.
    for _ in range(2):
        history.add([*jobs, (record(5), None)], made, dict.fromkeys(range(1, 6), WEIGHT))

    def found(label: str) -> list[tuple[str, int, int]]:
        sums: dict[str, list[int]] = {}
        for part in history.work_done(JobFilter(), since=0, until=10**18, label=label):
            total = sums.setdefault(part.label, [0, 0])
            total[:] = total[0] + part.jobs, total[1] + part.run
        return sorted((value, jobs, run) for value, (jobs, run) in sums.items())

    assert found("team") == [("", 1, 3), ("blue", 1, 2), ("red", 2, 5)]
    assert found("tier") == [("", 3, 9), ("db", 1, 1)]
    assert found("") == found("nothing") == [("", 4, 10)]
    # Labels go with their job, which may come back by a copy of another history.
    assert history.prune(10**18) == 5
    history.add(jobs[:1], made[:1], {1: WEIGHT})
    assert found("team") == [("red", 1, 1)]


def test_attempts_on_nodes_are_those_that_ran_in_the_span_the_latest_ends_first(history: History) -> None:
    def on(node: str, number: int, placed: int, ended: int) -> AttemptRecord:
        return msgspec.structs.replace(
            attempt(number, 7, number), node=node, placed=placed, started=placed, ended=ended
        )

    before, into, inside, out, after = (
        on("n1", number, *times) for number, times in enumerate([(1, 9), (5, 15), (12, 14), (18, 30), (20, 25)])
    )
    elsewhere = on("n3", 8, 12, 14)
    history.add([], [before, into, inside, out, after, elsewhere, on("n2", 9, 1, 99)], {7: WEIGHT})
    found = history.attempts_on(["n1", "n2"], since=10, until=20, limit=10)
    assert [one.attempt for one in found] == [9, out.attempt, into.attempt, inside.attempt]
    assert history.attempts_on(["n1"], since=10, until=20, limit=1) == [out]
    assert history.attempts_on(["n9"], since=0, until=99, limit=9) == []


def test_a_history_of_an_earlier_release_gets_the_index_for_nodes(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/history.db", tmp_path / "history.db"
    History(url).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP INDEX attempts_node")
    History(url).close()
    with closing(sqlite3.connect(file)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")]
    assert names.count("attempts_node") == 1


def test_a_history_whose_making_was_cut_off_by_a_kill_can_be_checked(tmp_path: Path) -> None:
    """The first transactions of a new file have a journal of their own, until it is written ahead."""
    file = tmp_path / "history.db"
    program = f"""if True:
        import os, sqlite3
        connection = sqlite3.connect({str(file)!r}, isolation_level=None)
        connection.execute("CREATE TABLE first (name)")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE marks (name, value)")
        connection.executemany("INSERT INTO first VALUES (?)", [("x" * 1000,)] * 100)
        os._exit(0)
    """
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / "history.db-journal").stat().st_size
    check_history(file, tmp_path / "history.mark", deep=True)
    History(f"sqlite:///{file}").close()
