"""Reading logs: what is understood, what is left out, and what is said about it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from cress.model.errors import InputError
from cress.simulator import run
from cress.simulator.clusterfile import load_cluster
from cress.simulator.request import Request
from cress.simulator.traces import load_workload, swf
from cress.simulator.workload import COLUMNS
from tests.simulator.builders import SECOND, swf_line, write_swf

GOOD = swf_line(5, 0, 100, 4, 200)


def test_a_log_becomes_one_node_and_jobs_of_one_task(tmp_path: Path) -> None:
    path = write_swf(tmp_path / "a.swf", [GOOD, swf_line(7, 5, 30.5, 2, 60, user=9)], processors=100)
    work = load_workload(str(path), None, 1)
    assert [(node.name, node.capacity[0]) for node in work.cluster.nodes] == [("machine", 100_000)]
    assert work.ids == ["5", "7"]
    assert work.submit.tolist() == [0, 5 * SECOND]
    assert work.run.tolist() == [100 * SECOND, 30_500_000]
    assert work.limit.tolist() == [200 * SECOND, 60 * SECOND]
    assert [work.requests[i][0] for i in work.request_index] == [4000, 2000]
    assert [work.users[i] for i in work.user_index] == ["user1", "user9"]
    assert work.tasks.tolist() == [1, 1]
    assert work.line.tolist() == [3, 4]
    assert not work.notes


def test_packed_and_plain_logs_are_the_same(tmp_path: Path) -> None:
    plain = write_swf(tmp_path / "a.swf", [GOOD])
    packed = tmp_path / "a.swf.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert load_workload(str(packed), None, 1).ids == load_workload(str(plain), None, 1).ids
    assert load_workload(str(packed), None, 1).name == "a"


CASES = {
    "a word in a line": (
        ["1 0 -1 ten 4 -1 -1 4 200 -1 1 1 -1 -1 -1 -1 -1 -1", GOOD],
        "1 × malformed line: left out (line 3)",
    ),
    "a line too short": (["1 2 3", GOOD], "1 × malformed line: left out (line 3)"),
    "a line too long": ([GOOD + " 5", GOOD], "1 × malformed line: left out (line 3)"),
    "not a number": ([GOOD.replace(" 100 ", " nan "), GOOD], "1 × malformed line: left out (line 3)"),
    "an endless number": ([GOOD.replace(" 100 ", " 1e300 "), GOOD], "1 × malformed line: left out (line 3)"),
    "text in a field that is not used": ([GOOD[:-2] + "x"], None),
    "no submit time": ([swf_line(1, -1, 100, 4, 200), GOOD], "1 × unknown submit time: left out (line 3)"),
    "cancelled before it ran": ([swf_line(1, 0, -1, 4, 200), GOOD], "1 × unknown run time: left out (line 3)"),
    "no processors": ([swf_line(1, 0, 100, 0, 200), GOOD], "1 × zero processors: left out (line 3)"),
    "unknown processors": ([swf_line(1, 0, 100, -1, 200), GOOD], "1 × zero processors: left out (line 3)"),
    "allocated processors stand in": ([swf_line(1, 0, 100, -1, 200, allocated=3)], None),
    "no requested time": (
        [swf_line(1, 0, 100, 4, -1)],
        "1 × unknown requested time: run time taken as time limit (line 3)",
    ),
    "ran longer than it asked for": (
        [swf_line(1, 0, 300, 4, 200)],
        "1 × run time above time limit: run cut at the limit (line 3)",
    ),
    "a requested time of 0": (
        [swf_line(1, 0, 100, 4, 0)],
        "1 × unknown requested time: run time taken as time limit (line 3)",
    ),
    "a job that ran for no time": ([swf_line(1, 0, 0, 4, 200)], None),
    "out of order": (
        [swf_line(1, 50, 1, 1, 9), swf_line(2, 40, 1, 1, 9), swf_line(3, 60, 1, 1, 9)],
        "1 × submit out of order: sorted by submit time (line 4)",
    ),
    "the same id twice": ([GOOD, GOOD], "1 × duplicate job id: kept (line 4)"),
    "many": ([*["x"] * 7, GOOD], "7 × malformed line: left out (lines 3, 4, 5, 6, 7, …)"),
    "blank lines and comments inside": (["", "; a remark", GOOD], None),
}


@pytest.mark.parametrize(("lines", "note"), CASES.values(), ids=CASES.keys())
def test_oddities_are_counted_with_their_lines(tmp_path: Path, lines: list[str], note: str | None) -> None:
    work = load_workload(str(write_swf(tmp_path / "a.swf", lines)), None, 1)
    assert work.notes.sentences() == ([note] if note else [])
    assert (work.run <= work.limit).all()
    assert (work.submit[1:] >= work.submit[:-1]).all()


def test_a_line_is_noted_for_its_first_mistake_only(tmp_path: Path) -> None:
    work = load_workload(str(write_swf(tmp_path / "a.swf", [swf_line(1, -1, -1, 0, -1), GOOD])), None, 1)
    assert work.notes.sentences() == ["1 × unknown submit time: left out (line 3)"]


def test_a_cut_run_is_marked_as_killed(tmp_path: Path) -> None:
    work = load_workload(str(write_swf(tmp_path / "a.swf", [swf_line(1, 0, 300, 4, 200), GOOD])), None, 1)
    assert work.run.tolist() == [200 * SECOND, 100 * SECOND]
    assert work.killed.tolist() == [True, False]


def test_jobs_of_one_second_keep_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [swf_line(9, 5, 1, 1, 9), swf_line(8, 5, 1, 1, 9), swf_line(7, 4, 1, 1, 9), swf_line(6, 5, 1, 1, 9)]
    assert load_workload(str(write_swf(tmp_path / "a.swf", lines)), None, 1).ids == ["7", "9", "8", "6"]


def waited(line: str, wait: float) -> str:
    """A line of a log with the time between submission and start."""
    cells = line.split()
    cells[2] = str(wait)
    return " ".join(cells)


# Processors that a log used at once, and the header: the processors of the machine.
PEAKS = {
    "the largest job": ([waited(GOOD, 0), waited(swf_line(2, 200, 1, 7, 9), 0)], "", 7),
    "jobs beside each other": ([waited(GOOD, 0), waited(swf_line(2, 50, 100, 7, 200), 20)], "", 11),
    "one after the other": ([waited(GOOD, 0), waited(swf_line(2, 50, 100, 7, 200), 50)], "", 7),
    "allocated, not requested": ([waited(swf_line(i, 0, 9, 2, 9, allocated=3), 0) for i in (1, 2)], "", 6),
    "requested, as nothing is allocated": ([waited(swf_line(i, 0, 9, 2, 9, allocated=-1), 0) for i in (1, 2)], "", 4),
    "without waits from the submission on": ([GOOD, swf_line(2, 1, 1, 7, 9)], "", 11),
    "without a wait behind its preceding job": ([GOOD, swf_line(2, 1, 1, 7, 9)[:-5] + "5 -1"], "", 7),
    "nodes of several processors": ([waited(swf_line(i, 0, 9, 2, 9), 0) for i in (1, 2)], "; MaxNodes: 2", 4),
    "nodes, and waits that are not known": ([swf_line(i, 0, 9, 2, 9) for i in (1, 2)], "; MaxNodes: 3", 3),
    "a digit that is no number": ([waited(GOOD, 0), waited(swf_line(2, 200, 1, 7, 9), 0)], "; MaxProcs: \u00b2", 7),
    "a number of 30 digits": ([waited(GOOD, 0), waited(swf_line(2, 200, 1, 7, 9), 0)], "; MaxProcs: " + "9" * 30, 7),
    "processors": ([waited(swf_line(i, 0, 9, 2, 9), 0) for i in (1, 2)], "; MaxNodes: 1\n; MaxProcs: 3", 3),
}


@pytest.mark.parametrize(("lines", "header", "processors"), PEAKS.values(), ids=PEAKS.keys())
def test_without_a_number_of_processors_the_peak_of_use_counts(
    tmp_path: Path, lines: list[str], header: str, processors: int
) -> None:
    work = load_workload(str(write_swf(tmp_path / "a.swf", [header, *lines], None)), None, 1)
    assert work.cluster.nodes[0].capacity[0] == 1000 * processors
    told = [f"1 × number of processors not in the header: peak of the processors in use at once taken [{processors}]"]
    assert work.notes.sentences() == ([] if processors == 3 else told)


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_costs_no_line(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("a.swf.gz" if packed else "a.swf")
    text = b"\xef\xbb\xbf" + GOOD.encode() + b"\r\n"
    path.write_bytes(gzip.compress(text) if packed else text)
    assert load_workload(str(path), None, 1).ids == ["5"]


def test_the_header_says_when_and_where(tmp_path: Path) -> None:
    path = tmp_path / "a.swf"
    path.write_text(f"; MaxProcs: 10 (of 12)\n; UnixStartTime: 893466664\n; TimeZoneString: US/Pacific\n{GOOD}\n")
    work = load_workload(str(path), None, 1)
    assert work.utc == 893_466_664 * SECOND
    assert str(work.zone) == "US/Pacific"
    assert work.cluster.nodes[0].capacity[0] == 10_000


def test_on_several_nodes_a_job_is_a_gang_of_cores(tmp_path: Path) -> None:
    nodes = tmp_path / "c.yaml"
    nodes.write_text("nodes:\n  - {name: n, count: 3, resource: '<4>'}\n")
    path = write_swf(tmp_path / "a.swf", [GOOD, swf_line(2, 1, 1, 1, 9)])
    work = load_workload(str(path), load_cluster(nodes), 1)
    assert work.tasks.tolist() == [4, 1]
    assert work.gang.tolist() == [True, False]
    assert [work.requests[i][0] for i in work.request_index] == [1000, 1000]


def _after(line: str, preceding: object, think: object = -1, memory: object = -1) -> str:
    cells = line.split()
    cells[9], cells[16], cells[17] = str(memory), str(preceding), str(think)
    return " ".join(cells)


NO_THINK_TIME = "think time: not waited for: there is no preceding job after whose end it begins"
FEEDBACK = {
    "a preceding job": ([_after(swf_line(6, 0, 10, 1, 20), 5)], [(0,)], []),
    "think time": (
        [_after(swf_line(6, 0, 10, 1, 20), 5, 30)],
        [(0,)],
        [],
    ),
    "a preceding job that is not there": (
        [_after(swf_line(6, 0, 10, 1, 20), 99, 5)],
        [()],
        ["1 × unknown predecessor: not waited for (line 4)", f"1 × {NO_THINK_TIME} (line 4)"],
    ),
    "one that was left out": (
        [swf_line(6, 0, -1, 1, 20), _after(swf_line(7, 0, 10, 1, 20), 6)],
        [()],
        ["1 × unknown run time: left out (line 4)", "1 × unknown predecessor: not waited for (line 5)"],
    ),
    "a number that occurs twice": (
        [swf_line(5, 0, 9, 1, 20), _after(swf_line(7, 0, 9, 1, 20), 5)],
        [(), (0,)],
        ["1 × duplicate job id: kept (line 4)"],
    ),
    "text": ([_after(swf_line(6, 0, 10, 1, 20), "x", "y", "z")], [], []),
    "requested memory": (
        [_after(swf_line(6, 0, 10, 1, 20), -1, 3, 1024)],
        [],
        [f"1 × {NO_THINK_TIME} (line 4)", "1 × requested memory: not asked for: a log has processors only (line 4)"],
    ),
}


@pytest.mark.parametrize(("lines", "after", "notes"), FEEDBACK.values(), ids=FEEDBACK.keys())
def test_the_preceding_job_is_honoured_and_what_is_passed_over_is_told(
    tmp_path: Path, lines: list[str], after: list[tuple[int, ...]], notes: list[str]
) -> None:
    work = load_workload(str(write_swf(tmp_path / "a.swf", [GOOD, *lines])), None, 1)
    found = [tuple(first for first, _ in each) for each in work.after or ()]
    assert found == ([(), *after] if after else [])
    assert work.notes.sentences() == notes


def test_a_job_starts_when_its_preceding_job_is_over_even_if_that_was_cut(tmp_path: Path) -> None:
    lines = [swf_line(1, 0, 50, 1, 30), _after(swf_line(2, 0, 10, 1, 20), 1)]
    plan = run.plan(Request(trace=str(write_swf(tmp_path / "a.swf", lines)), out=tmp_path / "out"))
    times = run.simulate(plan, plan.choices[0]).analysis.times
    assert (times.start // SECOND).tolist() == [0, 30]


def test_the_small_log_of_an_attack_is_simulated_with_all_its_times(tmp_path: Path) -> None:
    # The second job is submitted 5 s after the end of the first; the predecessor of the third does not exist.
    (tmp_path / "a.swf").write_text(
        "1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 -1 -1\n"
        "2 0 -1 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 1 5\n"
        "3 0 -1 10 1 -1 -1 1 20 -1 1 1 1 -1 1 -1 99 5\n"
    )
    plan = run.plan(Request(trace=str(tmp_path / "a.swf"), out=tmp_path / "out"))
    result = run.simulate(plan, plan.choices[0])
    assert (result.analysis.times.start // SECOND).tolist() == [0, 15, 0]
    assert result.analysis.summary["wait_mean_s"] == 0
    assert result.notes.sentences() == [
        "1 × unknown predecessor: not waited for (line 3)",
        f"1 × {NO_THINK_TIME} (line 3)",
        "1 × number of processors not in the header: peak of the processors in use at once taken [2]",
    ]


# Submissions of the jobs behind one that runs from 0 to 30, and when they start.
THINK_TIMES = {
    "after the end": ([_after(swf_line(2, 0, 10, 1, 20), 1, 7)], [37]),
    "not before the log": ([_after(swf_line(2, 90, 10, 1, 20), 1, 7)], [90]),
    "parts of seconds": ([_after(swf_line(2, 0, 10, 1, 20), 1, 7.9)], [37]),
    "a chain": ([_after(swf_line(2, 0, 10, 1, 20), 1, 7), _after(swf_line(3, 0, 10, 1, 20), 2, 3)], [37, 50]),
    "one behind it without": (
        [_after(swf_line(2, 0, 10, 1, 20), 1, 7), _after(swf_line(3, 0, 10, 1, 20), 2)],
        [37, 47],
    ),
    "behind one that never fits": ([swf_line(2, 0, 9, 99, 9), _after(swf_line(3, 5, 10, 1, 20), 2, 7)], [None, 5]),
}


@pytest.mark.parametrize("path", ["together", "one-by-one", "lifecycle"])
@pytest.mark.parametrize(("lines", "starts"), THINK_TIMES.values(), ids=THINK_TIMES.keys())
def test_a_think_time_begins_with_the_end_of_the_preceding_job(
    tmp_path: Path, lines: list[str], starts: list[int | None], path: str
) -> None:
    log = write_swf(tmp_path / "a.swf", [swf_line(1, 0, 30, 1, 30), *lines])
    cluster = None
    if path == "lifecycle":
        nodes = "nodes: [{name: n, resource: <10>}, {name: o, resource: <1>}]\noutages: [{node: o, from: 0s, to: 1s}]\n"
        (cluster := tmp_path / "c.yaml").write_text(nodes)
    order = "one-by-one" if path == "one-by-one" else "together"
    plan = run.plan(Request(trace=str(log), out=tmp_path / "out", cluster=cluster, events=order))
    times = run.simulate(plan, plan.choices[0]).analysis.times
    found = [int(begun) // SECOND if tries else None for begun, tries in zip(times.start, times.attempts, strict=True)]
    by_id = dict(zip(plan.workload.ids, found, strict=True))
    assert [by_id[str(2 + i)] for i in range(len(starts))] == starts


def test_a_job_with_a_think_time_is_queued_behind_those_submitted_before_it(tmp_path: Path) -> None:
    # One processor: the third job was submitted while the user of the second still thought.
    lines = [swf_line(1, 0, 30, 1, 30), _after(swf_line(2, 0, 10, 1, 20), 1, 5), swf_line(3, 32, 60, 1, 60)]
    plan = run.plan(Request(trace=str(write_swf(tmp_path / "a.swf", lines, 1)), out=tmp_path / "out"))
    result = run.simulate(plan, plan.choices[0])
    assert (result.analysis.times.start // SECOND).tolist() == [0, 92, 32]
    # 92 - 35: from the submission on, not from the end of the first job.
    assert result.analysis.summary["wait_max_s"] == 57


def test_preceding_jobs_in_a_circle_are_refused_with_their_column(tmp_path: Path) -> None:
    lines = [_after(GOOD, 6), _after(swf_line(6, 0, 10, 1, 20), 5)]
    with pytest.raises(
        InputError, match=r"a\.swf: preceding job \(column 17\): these jobs wait for each other: 5 → 6 → 5"
    ):
        load_workload(str(write_swf(tmp_path / "a.swf", lines)), None, 1)


ERRORS = {
    "nothing but remarks": ("; hello\n", "a.swf: no job in it"),
    "only unusable jobs": (
        swf_line(1, 0, -1, 4, 200),
        "a.swf: no usable job in it (1 × unknown run time: left out (line 1))",
    ),
}


@pytest.mark.parametrize(("text", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_a_log_without_jobs_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.swf").write_text(text)
    with pytest.raises(InputError) as caught:
        load_workload(str(tmp_path / "a.swf"), None, 1)
    assert message in str(caught.value)


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.swf.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"a\.swf\.gz: cannot be read"):
        load_workload(str(tmp_path / "a.swf.gz"), None, 1)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(InputError, match=r"a\.txt: unknown trace format \(one of \.swf"):
        load_workload(str(tmp_path / "a.txt"), None, 1)
    with pytest.raises(InputError, match=r"b\.swf: no such file"):
        load_workload(str(tmp_path / "b.swf"), None, 1)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda lines: lines, id="regular"),
        pytest.param(lambda lines: [f"  {line} \t" for line in lines], id="blanks around"),
        pytest.param(lambda lines: [line.replace(" 1 ", " 1.25 ", 1) for line in lines], id="fractions"),
        pytest.param(lambda lines: [*lines[:2], "; a remark", *lines[2:]], id="a comment inside"),
        pytest.param(lambda lines: [*lines[:2], "", *lines[2:]], id="an empty line inside"),
        pytest.param(lambda lines: [*lines[:2], lines[2] + " 7", *lines[3:]], id="a line of 19"),
        pytest.param(lambda lines: [*lines[:2], *lines[2].rsplit(" ", 1), *lines[3:]], id="a line in two"),
        pytest.param(lambda lines: [*lines[:2], lines[2].replace("-1", "x", 1), *lines[3:]], id="a word"),
        pytest.param(lambda lines: [*lines[:2], lines[2].replace("-1", "1-1", 1), *lines[3:]], id="no number"),
        pytest.param(lambda lines: [*lines[:2], lines[2].replace("-1", "1,5", 1), *lines[3:]], id="a comma"),
        pytest.param(
            lambda lines: [lines[0], *(line[: line.rindex("-1 -1")] + "1 30" for line in lines[1:])], id="think times"
        ),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_log_read_in_one_piece_is_the_log_read_line_by_line(
    tmp_path: Path, change: Callable[[list[str]], list[str]], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [swf_line(i + 1, 5 * i, 30 + i, 1 + i % 3, 60 - i, user=i % 2) for i in range(6)]
    text = (end or "\n").join(["; MaxProcs: 4", "; UnixStartTime: 1000", *change(lines)])
    (tmp_path / "log.swf").write_bytes((text + end).encode())
    whole = swf.load(tmp_path / "log.swf", None)
    monkeypatch.setattr(swf, "_regular", lambda _: None)
    by_line = swf.load(tmp_path / "log.swf", None)
    for name in COLUMNS:
        assert getattr(whole, name).tolist() == getattr(by_line, name).tolist(), name
    assert (whole.ids, whole.after, whole.utc, whole.cluster) == (
        by_line.ids,
        by_line.after,
        by_line.utc,
        by_line.cluster,
    )
    assert (whole.think is None) == (by_line.think is None)
    assert whole.think is None or by_line.think is None or whole.think.tolist() == by_line.think.tolist()
    assert whole.notes.sentences() == by_line.notes.sentences()


def test_a_regular_log_is_read_in_one_piece() -> None:
    text = "\n".join(["; MaxProcs: 4", swf_line(1, 0, 1, 1, 1), swf_line(2, 1, 1, 1, 1)])
    found = swf._regular(text.encode())
    assert found is not None
    assert found[0] == {"MaxProcs": "4"}
    assert found[2].tolist() == [2, 3]
