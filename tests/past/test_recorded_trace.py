"""An event log as a trace of the simulator: its jobs, nodes, groups and options; pseudonyms; export and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.model.errors import InputError
from cress.model.options import Options
from cress.past.export import as_csv, as_swf, nodes_as_csv, state_of
from cress.past.pseudonyms import anonymised
from cress.past.recorded_log import LogSpan, RecordedLog
from cress.past.recorded_waits import waits_of
from cress.past.recorded_work import recorded_work
from cress.simulator.clusterfile import load_cluster
from cress.simulator.request import Request
from cress.simulator.run import plan, plans, simulate
from cress.simulator.traces import load_workload
from cress.simulator.workload import NO_LIMIT
from tests.lifecycle.builders import after, job
from tests.past.recorder import UTC, Recorder, busy_day

SECOND = 1_000_000


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of one eventful day."""
    return busy_day(tmp_path_factory.mktemp("day"))


def test_jobs_have_their_times_requests_and_groups(tmp_path: Path) -> None:
    it = Recorder(tmp_path, Options(lending="off"))
    one, two = it.submit(
        job(3, cpus=1, group="ads", name="one", time_limit=90 * SECOND, priority=4),
        job(1, cpus=2, group="web", name="two", user="bob", after=after(-1)),
        after=9,
    )
    it.end(one, after=30)
    it.end(two, after=50)
    workload = load_workload(str(it.close()), None, 1)
    # Times count from the state with which the log begins.
    assert workload.ids == ["1", "2"]
    assert (workload.submit // SECOND).tolist() == [11, 11]
    assert (workload.run // SECOND).tolist() == [30, 50]
    assert workload.limit.tolist() == [90 * SECOND, NO_LIMIT]
    assert [workload.group_names[i] for i in workload.group_index] == ["ads", "web"]
    assert [workload.users[i] for i in workload.user_index] == ["ann", "bob"]
    assert workload.priority.tolist() == [4, 0]
    assert workload.after is not None
    assert [[place for place, _ in before] for before in workload.after] == [[], [0]]
    assert [group.name for group in workload.groups] == ["ads", "web"]
    assert workload.options is not None
    assert workload.options.lending == "off"
    assert workload.utc == UTC


def test_nodes_come_and_go_as_in_the_log(tmp_path: Path) -> None:
    it = Recorder(tmp_path)
    it.submit(job(1, group="ads", time_limit=1000 * SECOND))
    it.lose("n2", after=100)
    it.join("n2", after=200)
    it.lose("n1", after=300)
    it.step(after=100)
    cluster = load_workload(str(it.close()), None, 1).cluster
    assert [node.name for node in cluster.nodes] == ["n1", "n2"]
    spans = [(one.node, one.start // SECOND, None if one.end is None else one.end // SECOND) for one in cluster.outages]
    assert spans == [(0, 603, None), (1, 103, 303)]


def test_a_simulation_of_the_log_repeats_what_happened(day: Path, tmp_path: Path) -> None:
    prepared = plan(Request(trace=str(day), out=tmp_path))
    result = simulate(prepared, prepared.choices[0])
    assert result.analysis.summary["jobs"] == 5
    assert result.analysis.summary["jobs_finished"] + result.analysis.summary["jobs_cancelled"] >= 4
    work = recorded_work(RecordedLog(day))
    simulated = {
        int(result.run.workload.ids[i]): int(at)
        for i, at in zip(result.run.attempts.job.tolist()[::-1], result.run.attempts.start.tolist()[::-1], strict=True)
    }
    page = next(number for number, one in work.jobs.items() if one.job.name == "page")
    started = work.jobs[page].started
    assert started is not None
    assert abs(simulated[page] + work.since - started) < 6 * SECOND


def test_other_groups_beside_the_own_ones(day: Path, tmp_path: Path) -> None:
    other = tmp_path / "new.conf"
    other.write_text("Name: ads\nResourceQuota: 1\n\nName: web\nResourceQuota: 7\n")
    own, new = plans(Request(trace=str(day), out=tmp_path / "out"), [other], own=True)
    assert [one.choices[0].label for one in (own, new)] == ["own", "new"]
    assert [group.quota.scalar for group in own.workload.groups] == [4000, 4000]
    assert [group.quota.scalar for group in new.workload.groups] == [1000, 7000]


def test_only_a_part_of_the_time(tmp_path: Path) -> None:
    it = Recorder(tmp_path)
    (early,) = it.submit(job(1, group="ads", name="early"))
    it.end(early, after=10)
    (late,) = it.submit(job(1, group="ads", name="late"), after=100)
    it.end(late, after=10)
    folder = it.close()
    assert load_workload(str(folder), None, 1, None, LogSpan(UTC + 50 * SECOND)).ids == [str(late)]
    assert load_workload(str(folder), None, 1, None, LogSpan(0, UTC + 50 * SECOND)).ids == [str(early)]
    with pytest.raises(InputError, match="has no jobs in this time"):
        load_workload(str(folder), None, 1, None, LogSpan(UTC + 5000 * SECOND))


def test_what_is_not_known_is_noted(tmp_path: Path) -> None:
    it = Recorder(tmp_path, nodes=1)
    it.submit(job(1, cpus=4, group="ads", name="runs", time_limit=50 * SECOND))
    it.submit(job(1, cpus=4, group="ads", name="waits", time_limit=20 * SECOND))
    it.submit(job(1, cpus=4, group="ads", name="endless"))
    workload = load_workload(str(it.close()), None, 1)
    assert workload.run.tolist() == [50 * SECOND, 20 * SECOND]
    assert workload.notes.count("running at the end of the log") == 1
    assert workload.notes.count("not started in the log") == 1
    assert workload.notes.count("unknown run time") == 1


def test_pseudonyms_are_stable_and_nothing_else_changes(tmp_path: Path) -> None:
    it = Recorder(tmp_path)
    (first,) = it.submit(job(1, group="ads", name="secret-project", user="carol", requirement='Name = "n2"'))
    it.submit(job(1, group="ads", name="secret-project", user="dave"))
    it.end(first, after=5)
    folder = it.close()
    work = recorded_work(RecordedLog(folder))
    one, other = anonymised(work), anonymised(recorded_work(RecordedLog(folder)))
    assert one == other
    jobs = [recorded.job for recorded in one.jobs.values()]
    assert [(each.name, each.user) for each in jobs] == [("job-1", "user-1"), ("job-1", "user-2")]
    assert jobs[0].requirement == 'Name = "node-2"'
    assert [*one.nodes] == ["node-1", "node-2"]
    text = as_csv(one) + as_swf(one) + nodes_as_csv(one)
    for name in ("secret-project", "carol", "dave", "n2"):
        assert name not in text.replace("node-2", "")
    assert [recorded.submitted for recorded in one.jobs.values()] == [rec.submitted for rec in work.jobs.values()]


def test_the_exported_table_is_the_same_trace(day: Path, tmp_path: Path) -> None:
    work = recorded_work(RecordedLog(day))
    jobs, nodes = tmp_path / "jobs.csv", tmp_path / "nodes.csv"
    jobs.write_text(as_csv(work))
    nodes.write_text(nodes_as_csv(work))
    log, table = load_workload(str(day), None, 1), load_workload(str(jobs), load_cluster(nodes), 1)
    assert table.ids == log.ids
    for name in ("submit", "run", "limit", "tasks", "gang"):
        assert getattr(table, name).tolist() == getattr(log, name).tolist(), name
    assert [node.capacity for node in table.cluster.nodes] == [node.capacity for node in log.cluster.nodes]
    assert table.notes.count("unknown column") == 0


def test_the_exported_swf_is_read(day: Path, tmp_path: Path) -> None:
    work = recorded_work(RecordedLog(day))
    path = tmp_path / "day.swf"
    path.write_text(as_swf(work))
    workload = load_workload(str(path), None, 1)
    # The job that was cancelled before it started has no run time, as in other logs.
    assert workload.ids == ["1", "2", "3", "5"]
    assert workload.cluster.total()[0] == 8000
    assert workload.utc // SECOND == work.since // SECOND


def test_states_and_waits(day: Path) -> None:
    work = recorded_work(RecordedLog(day))
    assert {job.job.name: state_of(job) for job in work.jobs.values()} == {
        "long": "succeeded",
        "page": "succeeded",
        "gang": "succeeded",
        "dropped": "cancelled",
        "last": "failed",
    }
    waits = waits_of(work)
    assert waits[""].jobs == 5
    assert waits["ads"].preemptions == waits[""].preemptions > 0
    assert waits["web"].mean is not None


def test_options_for_logs_are_refused_for_other_traces() -> None:
    with pytest.raises(InputError, match="is not an event log"):
        load_workload("generated", None, 1, None, LogSpan(5))
