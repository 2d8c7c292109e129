"""What survives: clean stops, kills, full disks; and what a start refuses."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cress.center.leader.leader_work import bound_socket
from cress.center.process.clock import Clock
from cress.model.errors import InputError
from cress.model.reports import Started
from cress.model.times import DAY, SECOND
from tests.center.program import Center, eventually, lines_of, run_to_end


def test_a_clean_stop_leaves_everything_for_the_next_start(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        center.put_groups("Name: news\nResourceQuota: 2\n")
        over, waits = center.submit(name="over", group="news"), center.submit(name="waits", tasks=5)
        with center.executor(resource="<1, 1G>") as executor:
            first = executor.launches()[0]
            executor.ended(first.attempt)
            runs = executor.launches()[0]
            epoch = executor.epoch
        assert center.stop() == 0
    assert not (tmp_path / "data" / "center.json").exists()
    with Center(tmp_path / "data", forked=True) as center:
        by_name = {job["name"]: job for job in center.get("/v1/jobs")["jobs"]}
        assert {job["id"] for job in by_name.values()} == {over, waits}
        assert {job["state"] for job in by_name.values()} == {"succeeded", "running"}
        assert center.get("/v1/nodes/n1")["state"] == "away"
        assert [group["name"] for group in center.get("/v1/groups")["groups"]] == ["default", "news"]
        with center.executor(resource="<1, 1G>", reports=(Started(attempt=runs.attempt, at=1, pid=1),)) as executor:
            assert executor.epoch == epoch + 1
            executor.ended(runs.attempt)
            assert executor.launches()[0].attempt > runs.attempt
        assert center.submit() == waits + 1


def test_nothing_that_was_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    acknowledged: set[int] = set()
    for _ in range(3):
        with Center(tmp_path / "data", forked=True) as center:
            done = threading.Event()

            def submit_until_it_dies(center: Center = center, done: threading.Event = done) -> None:
                with center.client() as client:
                    while True:
                        try:
                            answer = client.post("/v1/jobs", json={"jobs": [{"command": ["true"], "name": "x"}]})
                        except httpx.TransportError:
                            return
                        acknowledged.add(answer.json()["jobs"][0]["id"])
                        if len(acknowledged) % 50 == 0:
                            done.set()

            submitting = threading.Thread(target=submit_until_it_dies)
            submitting.start()
            assert done.wait(60)
            center.kill()
            submitting.join()
    with Center(tmp_path / "data", forked=True) as center:
        kept: set[int] = set()
        before = None
        while True:
            page = center.get("/v1/jobs", limit=1000, **({} if before is None else {"before": before}))
            kept |= {job["id"] for job in page["jobs"]}
            before = page["next"]
            if before is None:
                break
        assert acknowledged <= kept
        assert all(job["command"] == ["true"] for job in page["jobs"])


def test_a_running_attempt_is_not_started_again_after_a_kill(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        id = center.submit(tasks=2)
        with center.executor(resource="<1, 1G>") as executor:
            (launch,) = executor.launches()
            executor.started(launch.attempt)
            eventually(lambda: center.get(f"/v1/jobs/{id}/tasks")["tasks"][0]["state"] == "running")
            center.submit(hold=True)  # stored when it is answered, and so is all before it
            center.kill()
    with Center(tmp_path / "data", forked=True) as center:
        assert center.get(f"/v1/jobs/{id}/tasks")["tasks"][0]["state"] == "running"
        known = (Started(attempt=launch.attempt, at=1, pid=7),)
        with center.executor(resource="<1, 1G>", reports=known) as executor:
            executor.ended(launch.attempt)
            (second,) = executor.launches()
            assert (second.task, second.attempt > launch.attempt) == (1, True)


def test_what_is_on_disk_is_for_the_owner_only(center: Center) -> None:
    # Root's tasks of other accounts pass through the directory; what lies there is private by itself.
    assert stat.S_IMODE(center.data.stat().st_mode) == (0o711 if os.geteuid() == 0 else 0o700)
    paths = list(center.data.iterdir())
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode) & 0o077) for path in paths} == {
        path.name: "0o0" for path in paths
    }
    assert len(center.token) >= 40


def test_a_second_center_on_the_same_directory_says_who_has_it(center: Center) -> None:
    second = run_to_end(center.data)
    assert second.returncode == 2
    assert second.stderr.count("\n") == 1
    assert f"process {center.process.pid}, at {center.address['url']}" in second.stderr
    assert center.get("/v1/health") == {"status": "ok"}


def test_a_start_that_cannot_be_is_one_sentence(center: Center, tmp_path: Path) -> None:
    hint = "another --port, or 0 for any free one"
    taken = int(center.address["url"].rpartition(":")[2])
    ended = run_to_end(tmp_path / "other", port=taken)
    assert (ended.returncode, ended.stderr) == (
        2,
        f"cress center: cannot listen at 127.0.0.1:{taken}: Address already in use ({hint})\n",
    )
    ended = run_to_end(tmp_path / "other", host="0.0.0.0")
    assert ended.returncode == 2
    assert "not a loopback address" in ended.stderr
    (tmp_path / "file").write_text("")
    ended = run_to_end(tmp_path / "file")
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    (tmp_path / "other" / "token").chmod(0o644)
    ended = run_to_end(tmp_path / "other")
    assert ended.returncode == 2
    assert "others may read the token" in ended.stderr
    (tmp_path / "other" / "token").chmod(0o600)
    (tmp_path / "other" / "cress.db").write_bytes(b"this is no database" * 1000)
    ended = run_to_end(tmp_path / "other")
    assert ended.returncode == 1
    assert ended.stderr.startswith("cress center: the store")
    assert "Traceback" not in ended.stderr


def test_a_taken_port_is_told_with_its_own_option() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InputError, match="another --executor-port, or 0"),
    ):
        bound_socket("127.0.0.1", taken.getsockname()[1], "--executor-port")


def test_options_and_dimensions_stay_with_the_data_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Center(data, option="accounting=dominant", dimension="gpu", forked=True) as center:
        center.put_groups("Name: lab\nResourceQuota: <2, 4G>\n")
        center.stop()
    for asked, says in (
        ({"option": "accounting=cpu"}, "start it with --option accounting=dominant"),
        ({"option": "graze=8s"}, "did you mean grace"),
    ):
        refused = run_to_end(data, **asked)  # type: ignore[arg-type]
        assert refused.returncode == 2
        assert says in refused.stderr
        assert refused.stderr.count("\n") == 1
    with (
        Center(data, option="grace=8s", dimension="npu", forked=True) as center,
        center.executor(resource="<1, 1G, gpu=2>"),
    ):
        assert center.get("/v1/nodes/n1")["capacity"]["gpu"] == "2"
        assert center.submit(resource="<1, 1G, npu=0>")
        assert "ResourceQuota: <2,4G>" in center.get("/v1/groups")["text"]


def test_the_end_of_the_parent_is_a_clean_stop(tmp_path: Path) -> None:
    with Center(tmp_path / "data", pipe=True) as center:
        assert center.process.stdin is not None
        center.process.stdin.close()
        assert center.process.wait(60) == 0
        center.process.stdin = None
    assert not (tmp_path / "data" / "center.json").exists()


def test_waiting_callers_do_not_keep_a_center_from_stopping(center: Center) -> None:
    id = center.submit()
    host, _, port = center.address["url"].removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as wire:
        head = f"GET /v1/jobs/{id}?wait=3000 HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {center.token}\r\n\r\n"
        wire.sendall(head.encode())
        # Answered by the one process that also has the question before, so that one waits by now.
        center.get("/v1/state")
        center.interrupt()
        assert center.process.wait(60) == 0


def test_a_stop_while_somebody_follows_a_log_is_quick_and_quiet(center: Center) -> None:
    with center.executor() as executor:
        id = center.submit()
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        with lines_of(center, f"/v1/jobs/{id}/logs?follow=true") as parts:
            executor.answer_logs(b"hello", over=False)
            assert next(parts) == b"hello"
            center.process.terminate()
            with contextlib.suppress(httpx.TransportError):
                assert list(parts) == []
        _, told = center.process.communicate(timeout=60)
    assert (center.process.returncode, told) == (0, "")


# --- a full disk -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "cress-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only: what happens on a full one was not shown")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_refuses_changes_serves_reads_and_heals(small_disk: Path) -> None:
    with Center(small_disk / "data", forked=True) as center:
        before = center.submit(name="before")
        with center.executor(resource="<1, 1G>") as executor:
            executor.launches()
            filler = small_disk / "filler"
            with filler.open("wb", buffering=0) as file:
                while True:
                    try:
                        file.write(b"x" * 4096)
                    except OSError:
                        break
            large = {"jobs": [{"command": ["true"], "environment": {"A": "x" * 100_000}}]}
            error = eventually(lambda: (a := center.http.post("/v1/jobs", json=large)).status_code == 503 and a.json())
            assert error["code"] == "unavailable"
            assert "full" in error["message"]
            assert executor.closed()
        assert center.get(f"/v1/jobs/{before}")["name"] == "before"
        # What was refused is not to be seen, as soon as the state was read again.
        eventually(lambda: [job["id"] for job in center.get("/v1/jobs")["jobs"]] == [before])
        filler.unlink()
        eventually(lambda: not center.get("/v1/state")["problem"])
        after = center.submit(name="after")
        with center.executor(resource="<1, 1G>") as executor:
            # The first job's order comes again: nobody reported that it runs.
            assert executor.launches()[0].job == before
        center.kill()
    with Center(small_disk / "data", forked=True) as center:
        assert {before, after} <= {job["id"] for job in center.get("/v1/jobs")["jobs"]}


# --- the clock ---------------------------------------------------------------------------------------------------


def test_the_clock_goes_on_over_restarts_and_reboots_and_never_back() -> None:
    machine, wall = [1_000 * SECOND], [1_700_000_000 * SECOND]
    first = Clock("boot-1", boottime=lambda: machine[0], wall=lambda: wall[0])
    began = first.now()
    machine[0] += 5 * SECOND
    wall[0] -= 3_600 * SECOND
    assert first.now() == began + 5 * SECOND
    saved = first.save(first.now(), first.utc())

    machine[0] += 7 * SECOND
    again = Clock("boot-1", boottime=lambda: machine[0], wall=lambda: wall[0])
    again.resume(saved)
    assert again.now() == began + 12 * SECOND

    machine[0] = 3 * SECOND
    wall[0] += 60 * SECOND
    rebooted = Clock("boot-2", boottime=lambda: machine[0], wall=lambda: wall[0])
    rebooted.resume(saved)
    assert rebooted.now() == began + 65 * SECOND

    left = wall[0]
    for step, passed in ((-3_600 * SECOND, 0), (400 * DAY, 30 * DAY)):
        wall[0] = left + step
        odd = Clock("boot-3", boottime=lambda: machine[0], wall=lambda: wall[0])
        odd.resume(first.save(began, left))
        assert odd.now() == began + passed

    late = Clock("boot-1", boottime=lambda: machine[0], wall=lambda: wall[0])
    late.resume(saved, least=began + DAY)
    assert late.now() >= began + DAY
