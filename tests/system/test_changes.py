"""Changes of submitted jobs on a real cluster: ``cress update`` and ``cress requeue``, and what Slurm's users write."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from cress.client import JobView
from cress.protocol.job_views import TasksPage
from tests.system.cluster import Cluster, wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        cluster.start_center()
        cluster.start_executor("n1", "<2, 2G>")
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def ended_job(cluster: Cluster) -> int:
    """A job that has ended."""
    number = submit(cluster, name="over", command="true")
    cluster.cress("cancel", number)  # unless it has ended already
    ended(cluster, number)
    return number


def said(cluster: Cluster, *words: object, code: int = 0) -> str:
    """What a command says."""
    done = cluster.cress(*words)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def submit(cluster: Cluster, **keys: object) -> int:
    with cluster.client() as client:
        return client.submit([{"resource": "<2, 1G>", **keys}]).jobs[0].id


def ended(cluster: Cluster, job: int) -> JobView:
    with cluster.client() as client:
        wait_until(lambda: client.job(job, wait=5).ended is not None, f"the end of job {job}")
        return client.job(job)


def runs(cluster: Cluster, job: int) -> None:
    with cluster.client() as client:
        wait_until(lambda: _tasks(cluster, job).tasks[0].state == "running", f"the start of job {job}")
        assert client.job(job).tasks.running


def _tasks(cluster: Cluster, job: int) -> TasksPage:
    with cluster.client() as client:
        return client.tasks(job)


def test_the_time_limit_of_a_running_task_can_be_lengthened_and_shortened(cluster: Cluster) -> None:
    long, short = f"{cluster.folder}/long", f"{cluster.folder}/short"
    wait = "while [ ! -e {} ]; do sleep 0.05; done"

    def lengthened() -> tuple[int, int]:
        """A job whose limit is lengthened while it runs, and its first limit: on a busy machine a short one is over by
        then.
        """
        for limit in (2, 10, 50):
            job = submit(cluster, name="long", command=wait.format(long), time_limit=f"{limit}s", resource="<1, 1G>")
            with cluster.client() as client:
                wait_until(lambda job=job, client=client: client.job(job).started, "its start")  # type: ignore[misc]
            updated = cluster.cress("update", job, "time_limit=1h")
            if updated.returncode == 0:
                assert updated.stdout == f"job {job} (long) has time_limit=1h\n"
                return job, limit
        pytest.fail("no limit was long enough")

    one, limit = lengthened()
    two = submit(cluster, name="short", command=wait.format(short), time_limit="1h", resource="<1, 1G>")
    runs(cluster, two)
    assert said(cluster, "update", "short", f"time_limit={limit}s") == f"job {two} (short) has time_limit={limit}s\n"
    view = ended(cluster, two)
    # The other one was older, and its first limit is over as well.
    assert (view.state, view.reason) == ("timed out", f"time limit of {limit}s exceeded")
    open(long, "w").close()  # noqa: PTH123
    assert ended(cluster, one).state == "succeeded"
    assert ended(cluster, one).time_limit == 3600
    told = said(cluster, "events", "--job", one)
    assert "job.updated" in told
    assert "time_limit=1h" in told


def test_a_waiting_job_is_changed_and_the_change_is_in_its_story(cluster: Cluster) -> None:
    holder = submit(cluster, name="holder", command="sleep 1000")
    runs(cluster, holder)
    waiting = submit(cluster, name="waiting", command="true", resource="<2, 1G>")
    refused = said(cluster, "update", holder, waiting, "resource=<1, 100M>", code=3)
    assert f"job {holder} runs, and its resource may be changed only while no task of the job runs" in refused
    assert "none was changed" in refused
    with cluster.client() as client:
        assert client.job(waiting).resource["memory"] == "1G"
    said(cluster, "update", waiting, "resource=<1, 100M>", "priority=7", "max_per_node=1")
    with cluster.client() as client:
        view = client.job(waiting)
        assert (view.priority, view.resource["memory"]) == (7, "100M")
    said(cluster, "update", waiting, "resource.memory=90M", "resource.cpu=500m", "labels.tier=web")
    with cluster.client() as client:
        view = client.job(waiting)
        assert (view.resource, view.labels) == ({"cpu": "0.5", "memory": "90M"}, {"tier": "web"})
    said(cluster, "update", waiting, "labels.stage=2", "labels.tier=")
    with cluster.client() as client:
        assert client.job(waiting).labels == {"stage": "2"}
    other = submit(cluster, name="other", command="true", resource="<2, 1G>")
    unlike = said(cluster, "update", waiting, other, "resource.cpu=1", code=2)
    assert "resource: the jobs differ in it, so no entry can be changed for all" in unlike
    said(cluster, "cancel", other)
    assert said(cluster, "requeue", "--hold", holder) == f"job {holder} (holder) waits until it is released\n"
    assert ended(cluster, waiting).state == "succeeded"
    story = said(cluster, "story", waiting)
    assert "updated by" in story
    assert "resource=<1, 100M> priority=7" in story
    assert "wait again" in said(cluster, "story", holder)
    said(cluster, "cancel", holder)


def test_scontrol_updates_and_requeues(cluster: Cluster) -> None:
    assert cluster.cress("slurm", "install", cluster.folder / "slurm").returncode == 0
    holder = submit(cluster, name="holder", command="sleep 1000")
    runs(cluster, holder)

    def scontrol(*words: object) -> subprocess.CompletedProcess[str]:
        command = [str(cluster.folder / "slurm" / "scontrol"), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert scontrol("update", f"JobId={holder}", "TimeLimit=2:00:00", "Priority=5").returncode == 0
    with cluster.client() as client:
        assert (client.job(holder).time_limit, client.job(holder).priority) == (7200, 5)
    assert "did you mean timelimit?" in scontrol("update", f"JobId={holder}", "TimeLimt=1").stderr
    assert scontrol("requeuehold", holder).returncode == 0
    with cluster.client() as client:
        wait_until(lambda: client.job(holder, wait=0).held and not client.job(holder).tasks.running, "the end")
    said(cluster, "cancel", holder)


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["JOB"], 2, "no value is given (KEY=VALUE, with one of the keys time_limit, priority,"),
        (["priority=1"], 2, "no job is given"),
        (["JOB", "command=true"], 2, "command: command of a submitted job cannot be changed (these can: time_limit,"),
        (["JOB", "walltime=2h"], 2, "walltime: unknown key 'walltime' (did you mean time_limit?)"),
        (["JOB", "walltime="], 2, "walltime: unknown key 'walltime' (did you mean time_limit?)"),
        (["JOB", "labels.stage="], 2, "labels.stage: there is no such entry to remove (the job has no labels)"),
        (["JOB", "time_limit=soon"], 2, "time_limit: "),
        (["JOB", "priority=1", "priority=2"], 2, "priority: is given twice"),
        (["999", "priority=1"], 2, "there is no job 999"),
        (["JOB", "priority=1"], 3, "job JOB has ended"),
    ],
)
def test_mistakes_say_what_would_be_right(
    cluster: Cluster, ended_job: int, words: list[str], code: int, why: str
) -> None:
    number = str(ended_job)
    words = [word.replace("JOB", number) for word in words]
    assert why.replace("JOB", number) in said(cluster, "update", *words, code=code)


def test_failed_tasks_are_retried_with_their_indices(cluster: Cluster) -> None:
    command = "echo index $CRESS_TASK_INDEX of $CRESS_TASK_COUNT; test $CRESS_TASK_INDEX -lt 9 -o -e {}/good"
    job = submit(
        cluster, name="some", command=command.format(cluster.folder), tasks=[1, 5, "9-10"], resource="<0.5, 100M>"
    )
    assert ended(cluster, job).state == "failed"
    assert [task.listed for task in _tasks(cluster, job).tasks] == [1, 5, 9, 10]
    (cluster.folder / "good").touch()
    again = said(cluster, "retry", job, "--failed")
    number = int(again.split()[1])
    assert again == f"job {number} (some) submitted: repeats the tasks of job {job} that did not succeed\n"
    assert ended(cluster, number).state == "succeeded"
    assert said(cluster, "logs", number) == "[0] index 9 of 2\n[1] index 10 of 2\n"
    assert f"every task of job {number} has succeeded" in said(cluster, "retry", number, "--failed", code=3)
    whole = int(said(cluster, "retry", job).split()[1])
    assert ended(cluster, whole).tasks.total == 4
    dag = submit(cluster, name="dag", type="dag", steps={"a": {"command": "exit 1", "resource": "<0.1, 20M>"}})
    ended(cluster, dag)
    refused = said(cluster, "retry", "dag.a", code=3)
    assert f"is a part of job {dag} and cannot be submitted alone (`cress resume {dag}` repeats steps" in refused


def test_watch_follows_a_job_and_ends_with_its_code(cluster: Cluster) -> None:
    mark = cluster.folder / "watched"
    job = submit(
        cluster,
        name="coded",
        command=f"while [ ! -e {mark} ]; do sleep 0.05; done; exit 7",
        resource="<1, 100M>",
    )
    with cluster.running("watch", job) as watch:
        assert watch.stdout is not None
        lines = iter(watch.stdout.readline, "")
        assert any(f"job {job} (coded) running" in line for line in lines)
        assert "has not ended" in said(cluster, "retry", job, code=3)
        mark.touch()
        assert [*lines][-1].endswith(f"job {job} (coded) failed: exit code 7\n")
        assert watch.wait() == 7


def test_a_drain_without_a_deadline_waits_for_the_last_task(cluster: Cluster) -> None:
    mark = f"{cluster.folder}/drained"
    job = submit(cluster, name="last", command=f"while [ ! -e {mark} ]; do sleep 0.05; done", resource="<1, 100M>")
    runs(cluster, job)
    with cluster.running("nodes", "drain", "n*", "--wait", "--reason", "disk") as drain:
        assert drain.stdout is not None
        assert drain.stdout.readline() == "node n1 takes no new tasks; its running tasks go on to their end (disk)\n"
        with cluster.client() as client:
            assert client.node("n1").state == "draining"
        open(mark, "w").close()  # noqa: PTH123
        assert drain.stdout.readline() == "node n1 is drained: nothing runs there\n"
        assert drain.wait(timeout=30) == 0
    assert ended(cluster, job).state == "succeeded"
    wait_until(lambda: "node.drained" in said(cluster, "events"), "the event")
    assert "drained" in said(cluster, "nodes")
    said(cluster, "nodes", "uncordon", "n1")
