"""Jobs through ``cress.Client`` and ``cress.AsyncClient``, on a real cluster."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import cress
from cress.client import NotFound, Refused
from cress.client.aio.client import AsyncClient
from cress.client.aio.handles import AsyncJobHandle
from cress.client.blocking.client import Client
from cress.client.blocking.handles import JobHandle
from cress.model.errors import InputError
from tests.system.cluster import Cluster, wait_until

SMALL = "<0.1, 16M>"
PATIENCE = 120.0


def shell(text: str, **keys: Any) -> cress.Job:
    return cress.Job(["sh", "-c", text], **{"resource": SMALL, **keys})


# --- one job ----------------------------------------------------------------------------------------------------------


def test_a_job_from_submit_to_result(center: cress.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = center.submit(shell("pwd; echo $WORD; echo to stderr >&2", name="hello", environment={"WORD": "grüße"}))
    assert job.name == "hello"
    view = job.result(PATIENCE)
    assert (view.state, view.tasks.succeeded) == ("succeeded", 1)
    assert list(job.logs()) == [str(tmp_path), "grüße"]
    assert job.output(stream="stderr") == "to stderr\n"
    assert (job.state(), job.done(), job.reason()) == ("succeeded", True, "")
    assert [task.attempts[-1].outcome for task in job.tasks()] == ["succeeded"]
    assert center.job(job.id) == job


def test_commands_run_inside_of_a_task(center: cress.Client, cluster: Cluster) -> None:
    job = center.submit(shell("exec sleep 600", name="inside", tasks=2))
    wait_until(lambda: all(task.state == "running" for task in job.tasks()), "both tasks")
    try:
        done = job.exec(["sh", "-c", "cat; echo $WORD $CRESS_TASK_INDEX; echo oh >&2; exit 4"], task=1, stdin="in,",
                        environment={"WORD": "grüße"})  # fmt: skip
        assert done == (4, "in,grüße 1\n", "oh\n")
        with pytest.raises(cress.ClientError, match="has no task 7"):
            job.exec(["true"], task=7)

        async def inside() -> None:
            async with cress.AsyncClient(data=cluster.data) as client:
                handle = await client.job(job.id)
                both = await asyncio.gather(*(handle.exec(["printenv", "CRESS_TASK_INDEX"], task) for task in (0, 1)))
                assert [each.stdout for each in both] == ["0\n", "1\n"]
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(handle.exec(["sleep", "600"]), 2.0)

        asyncio.run(inside())
        anywhere = job.exec(["printenv", "CRESS_TASK_INDEX"])
        assert (anywhere.task, anywhere.stdout) == (0, "0\n")
        job.signal("KILL", task=0)
        wait_until(lambda: job.tasks()[0].state == "failed", "the end of the first task")
        anywhere = job.exec(["printenv", "CRESS_TASK_INDEX"])
        assert (anywhere.task, anywhere.stdout) == (1, "1\n")
    finally:
        job.cancel()
    wait_until(job.done, "the end of the job")
    with pytest.raises(cress.ClientError, match=f"no task of job {job.id} runs"):
        job.exec(["true"])


def test_steps_with_files_have_directories_of_their_own(
    center: cress.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("data")
    dag = cress.Dag("places", resource=SMALL)
    dag.step("here", "pwd")
    dag.step("own", "pwd; cat brought", files={"brought": str(tmp_path / "data")})
    job = center.submit(dag)
    job.result(PATIENCE)
    here, own = job.members()
    assert here.output() == f"{tmp_path}\n"
    assert own.output().endswith("/work\ndata")
    assert not (tmp_path / "brought").exists()


def test_a_job_that_fails_says_why(center: cress.Client) -> None:
    job = center.submit(shell("echo warming up >&2; echo out of cheese >&2; exit $((3 * CRESS_TASK_INDEX))", tasks=3))
    with pytest.raises(cress.JobFailed) as caught:
        job.result(PATIENCE)
    assert caught.value.job.state == "failed"
    assert caught.value.codes == {1: 3, 2: 6}
    assert caught.value.stderr == "warming up\nout of cheese"
    assert str(caught.value) == (
        f"job {job.id} (sh) failed: 2 of 3 tasks failed; task 1 exited with 3 on n1\n  warming up\n  out of cheese"
    )


def test_a_job_that_is_cancelled(center: cress.Client) -> None:
    job = center.submit(shell("sleep 600"))
    with pytest.raises(TimeoutError, match=rf"job {job.id} \(sh\) is (waiting|running) after 0\.2 s"):
        job.wait(0.2)
    job.cancel()
    assert job.wait(PATIENCE).state == "cancelled"
    with pytest.raises(cress.JobFailed, match=rf"job {job.id} \(sh\) cancelled"):
        job.result()


def test_a_job_that_is_held(center: cress.Client) -> None:
    job = center.submit(shell("true", hold=True))
    assert job.view().held
    job.release()
    assert job.result(PATIENCE).state == "succeeded"


def test_several_jobs_are_submitted_together(center: cress.Client) -> None:
    first, second = center.submit([shell("true", name="a"), {"name": "b", "command": ["true"], "resource": SMALL}])
    assert (first.name, second.name, second.id - first.id) == ("a", "b", 1)
    with pytest.raises(Refused, match=r"jobs\[1\]\.tasks"):
        center.submit([shell("true"), shell("true", tasks=-1)])
    assert center.jobs(limit=1)[0].id == second.id
    behind = center.submit(shell("true", after=[first, second]))
    assert behind.result(PATIENCE).after == {}


def test_jobs_as_they_end(center: cress.Client) -> None:
    slow = center.submit(shell("while ! [ -e $GO ]; do sleep 0.05; done", environment={"GO": "/dev/null/no"}))
    quick = [center.submit(shell("true")) for _ in range(5)]
    ended = center.as_completed([slow, *quick], timeout=PATIENCE)
    assert {next(ended).id for _ in quick} == {each.id for each in quick}
    slow.cancel()
    assert list(ended) == [slow]
    with pytest.raises(TimeoutError, match="1 jobs are not over"):
        list(center.as_completed([*quick, center.submit(shell("true", hold=True))], timeout=0.1))


def test_lines_come_as_they_are_written_attempt_by_attempt(center: cress.Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    text = f'echo one; while ! [ -e {go} ]; do sleep 0.05; done; printf two; [ "$0" = x ] || rm {go}; exit 1'
    job = center.submit(shell(text, retries=1, backoff="0.1s"))
    lines = job.logs(follow=True)
    assert next(lines) == "one"
    go.touch()
    assert next(lines) == "two"
    assert next(lines) == "one"
    go.touch()
    assert list(lines) == ["two"]


def test_what_is_not_there(center: cress.Client) -> None:
    with pytest.raises(NotFound):
        center.job(10**9)
    with pytest.raises(Refused, match="has not been started"):
        list(center.submit(shell("true", hold=True)).logs())


# --- a center that is away --------------------------------------------------------------------------------------------


def test_waiting_reading_and_submitting_survive_a_center_that_is_killed(own: Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with cress.Client(data=own.data, patience=PATIENCE) as client:
        job = client.submit(shell(f"echo one; while ! [ -e {go} ]; do sleep 0.05; done; echo two"))
        lines = job.logs(follow=True)
        assert next(lines) == "one"
        ends: list[str] = []
        threads = [
            threading.Thread(target=lambda: ends.append(job.result().state)),
            threading.Thread(target=lambda: ends.extend(lines)),
        ]
        for thread in threads:
            thread.start()
        own.kill_center()
        late: list[JobHandle] = []
        threads.append(threading.Thread(target=lambda: late.append(client.submit(shell("true", name="late")))))
        threads[-1].start()
        time.sleep(0.3)
        own.start_center()
        go.touch()
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(ends) == ["succeeded", "two"]
        assert late[0].result(PATIENCE).name == "late"
        assert len(client.jobs(name="late")) == 1


def test_patience_ends_and_a_center_that_was_never_there_is_told_at_once(own: Cluster) -> None:
    with cress.Client(data=own.data, patience=0.3) as client, cress.Client(data=own.data) as other:
        client.state()
        own.kill_center()
        since = time.monotonic()
        with pytest.raises(cress.ClientError, match="no center answers"):
            client.state()
        assert time.monotonic() - since >= 0.3
        with pytest.raises(cress.ClientError, match="no center answers"):
            other.state()


def test_a_center_that_comes_back_somewhere_else_is_found(own: Cluster) -> None:
    async def ask(url: str) -> None:
        async with cress.AsyncClient(data=own.data, patience=PATIENCE) as client:
            await client.state()
            await asyncio.to_thread(move)
            # By its Unix socket, wherever its port is now.
            assert (await client.state()).nodes == 1
            assert own.address("url") != url

    def move() -> None:
        own.kill_center()
        own._ports = (0, 0)
        own.start_center()

    with cress.Client(data=own.data, patience=PATIENCE) as client:
        client.state()
        asyncio.run(ask(own.address("url")))
        assert client.state().nodes == 1


# --- asyncio ----------------------------------------------------------------------------------------------------------


def test_a_hundred_submits_at_once(cluster: Cluster) -> None:
    async def main() -> list[str]:
        async with cress.AsyncClient(data=cluster.data) as client:
            jobs = await asyncio.gather(*(client.submit(shell(f"echo {number}")) for number in range(100)))
            await asyncio.gather(*(job.result(PATIENCE) for job in jobs))
            assert {job.id async for job in client.as_completed(jobs)} == {job.id for job in jobs}
            assert [line async for line in jobs[7].logs()] == ["7"]
            with pytest.raises(cress.JobFailed):
                await (await client.submit(shell("exit 1"))).result(PATIENCE)
            return await asyncio.gather(*(job.output() for job in jobs))

    assert asyncio.run(main()) == [f"{number}\n" for number in range(100)]


def test_who_waits_for_a_job_can_be_cancelled_and_the_job_goes_on(cluster: Cluster) -> None:
    async def main() -> None:
        async with cress.AsyncClient(data=cluster.data) as client:
            job = await client.submit(shell("sleep 600"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(job.wait(), 0.2)
            assert not await job.done()
            await job.cancel()
            assert (await job.wait(PATIENCE)).state == "cancelled"

    asyncio.run(main())


@pytest.mark.parametrize(("plain", "other"), [(Client, AsyncClient), (JobHandle, AsyncJobHandle)])
def test_both_clients_have_the_same_names_with_the_same_arguments(plain: type, other: type) -> None:
    def public(of: type) -> dict[str, list[tuple[str, Any, Any]]]:
        found = {}
        for name, each in inspect.getmembers(of, inspect.isfunction):
            if not name.startswith("_") or name == "__init__":
                given = inspect.signature(each).parameters.values()
                found[name] = [(one.name, one.kind, one.default) for one in given]
        return found

    assert public(plain) == public(other)
    assert len(public(plain)) > 8


# --- importing --------------------------------------------------------------------------------------------------------


def test_importing_cress_loads_none_of_it_and_every_name_is_there() -> None:
    code = "import sys, cress; assert not [m for m in sys.modules if m.startswith(('cress.', 'msgspec'))], sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in cress.__all__:
        assert getattr(cress, name).__name__ == name
        assert name in dir(cress)
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        cress.Clint  # type: ignore[attr-defined] # noqa: B018


def test_a_center_is_named_by_its_address_too(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    token = (cluster.data / "token").read_text().strip()
    with cress.Client(cluster.address("url"), token) as client:
        assert client.state().nodes == 1
    with pytest.raises(InputError, match="without a token"):
        cress.Client(cluster.address("url"))
    monkeypatch.setenv("CRESS_DATA", str(cluster.data))
    with cress.Client() as client:
        wait_until(lambda: client.nodes(where="Memory >= 8G")[0].match, "the match")
        assert client.resolve("nobody") == ()


# --- families ---------------------------------------------------------------------------------------------------------


def test_a_dag_is_told_by_its_steps_and_resumed(center: cress.Client, tmp_path: Path) -> None:
    dag = cress.Dag("etl", resource=SMALL)
    extract = dag.step("extract", "true")
    load = dag.step("load", f"echo no bread >&2; [ -e {tmp_path}/bread ]", after=extract)
    dag.step("report", "true", after={load: "ok"})
    job = center.submit(dag)
    with pytest.raises(cress.JobFailed, match=r"\(etl\.load\) failed; task 0 exited with 1 on n1\n  no bread"):
        job.result(PATIENCE)
    states = [(member.name, member.state()) for member in job.members()]
    assert states == [("etl.extract", "succeeded"), ("etl.load", "failed"), ("etl.report", "cancelled")]
    (tmp_path / "bread").touch()
    again = job.resume()
    assert again.result(PATIENCE).state == "succeeded"
    assert [member.name for member in again.members()] == ["etl.load", "etl.report"]


def test_a_service_is_applied_scaled_and_found(center: cress.Client) -> None:
    web = cress.Service("web", "echo here; exec sleep 600", tasks=1, resource=SMALL, ready_after="0.1s")
    assert [each.what for each in center.apply(web, dry_run=True)] == ["created"]
    (made,) = center.apply([web])
    assert [each.what for each in center.apply([web])] == ["unchanged"]
    job = center.job(made.id)
    job.scale(2)
    wait_until(lambda: [place.task for place in center.resolve("web")] == [0, 1], "two tasks that are ready")
    assert next(job.logs(1, follow=True)) == "here"
    assert len(job.members()) == 2
    assert [view.id for view in center.jobs(type="service", state="running")] == [job.id]
    job.cancel()
    assert job.wait(PATIENCE).state == "cancelled"


def test_who_waits_for_an_apply_learns_how_it_ended(center: cress.Client) -> None:
    web = cress.Service("web", "exec sleep 600", tasks=1, resource=SMALL, ready_after="0.1s")
    (made,) = center.apply([web], wait=True, timeout=PATIENCE)
    assert [place.task for place in center.resolve("web")] == [0]
    bad = cress.Service("web", "exit 3", tasks=1, resource=SMALL, ready_after="0.1s", backoff="10ms")
    with pytest.raises(
        cress.JobFailed, match=r"job \d+ \(web\): version 2 was rolled back: task 0 failed 3 times .* exit code 3"
    ):
        center.apply(bad, wait=True)
    slow = cress.Service("web", "exec sleep 599", tasks=1, resource=SMALL, ready_after="60s")
    with pytest.raises(TimeoutError, match=r"job \d+ \(web\): not ready after 0.1 s: .*; the applied changes go on"):
        center.apply(slow, wait=True, timeout=0.1)
    center.apply(web, wait=True, timeout=PATIENCE)
    assert center.apply(cress.Cron("tidy", when="0 3 1 1 *", command="true"), wait=True)[0].version is None
    for name in ("web", "tidy"):
        center.job(next(view.id for view in center.jobs(name=name))).cancel()
    assert center.job(made.id).wait(PATIENCE).state == "cancelled"


def test_a_strict_submit_is_refused_if_the_deadline_cannot_be_met(center: cress.Client) -> None:
    for _ in range(2):
        center.submit(cress.Job("sleep 3", name="never-in-a-second", time_limit="1min")).wait(PATIENCE)
    before = center.jobs(limit=1)
    # Without a limit, the runs of other jobs of the group, all of them short, would count as one run of this one.
    late = cress.Job("sleep 3", name="never-in-a-second", time_limit="1min", deadline=timedelta(seconds=1))
    with pytest.raises(Refused, match="cannot be met"):
        center.submit(late, strict=True)
    assert [job.id for job in center.jobs(limit=1)] == [job.id for job in before]
    (said,) = center.check(late)
    assert said.deadline is not None
    assert said.deadline.forecast == "cannot_be_met"
    in_time = center.submit(cress.Job("true", time_limit="1min", deadline="1h"), strict=True).wait(PATIENCE)
    assert in_time.deadline is not None
    assert in_time.deadline.forecast == "met"


def test_a_check_tells_what_a_submit_would_say_and_stores_nothing(center: cress.Client) -> None:
    before = center.jobs(limit=1)
    (said,) = center.check(cress.Cron("tidy", "0 3 * * *", "true", rank="Flavour"))
    assert (said.id, said.name) == (0, "tidy")
    assert "Flavour" in said.note
    with pytest.raises(Refused, match="when"):
        center.check(cress.Cron("tidy", "never", "true"))
    assert [job.id for job in center.jobs(limit=1)] == [job.id for job in before]
