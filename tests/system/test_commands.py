"""The command line against a real center and a real executor."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.system.cluster import Cluster, wait_until

OK = "command: 'true'\n"
BAD = "command: 'false'\nname: bad\n"


def result(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def state_of(cluster: Cluster, id: int) -> str:
    with cluster.client() as client:
        return client.job(id).state


def newest(cluster: Cluster) -> int:
    with cluster.client() as client:
        return max((job.id for job in client.jobs(limit=1).jobs), default=0)


def submitted_ids(text: str) -> list[int]:
    return [int(line.split()[1]) for line in text.splitlines() if line.endswith("submitted")]


# --- submit -----------------------------------------------------------------------------------------------------------


def test_submit_says_the_ids_and_waits_for_success(shared: Cluster) -> None:
    before = newest(shared)
    shared.file("ok.yaml", OK)
    shared.file("two.json", '[{"command": ["true"], "tasks": 3},\n\t{"command": "exit 0", "name": "shell"}]')
    code, out, err = result(shared.cress("submit", "ok.yaml", "two.json", "--wait"))
    first = submitted_ids(out)[0]
    assert first > before
    ids = [first, first + 1, first + 2]
    names = ["true", "true", "shell"]
    submitted = [f"job {id} ({name}) submitted" for id, name in zip(ids, names, strict=True)]
    succeeded = [f"job {id} ({name}) succeeded" for id, name in zip(ids, names, strict=True)]
    assert (code, out.splitlines(), err) == (0, submitted + succeeded, "")


def test_submit_wait_tells_failures_by_its_exit_code(shared: Cluster) -> None:
    shared.file("bad.yaml", "command: exit $CRESS_TASK_INDEX\nname: odd\ntasks: 3\n")
    code, out, err = result(shared.cress("submit", "bad.yaml", "--wait"))
    id = newest(shared)
    assert (code, err) == (1, "")
    assert out.splitlines()[-1] == f"job {id} (odd) failed: 2 of 3 tasks failed"


def test_mistakes_of_all_files_are_told_with_their_lines_and_nothing_is_submitted(shared: Cluster) -> None:
    before = newest(shared)
    shared.file("ok.yaml", OK)
    shared.file("bad.yaml", "command: x\n---\nname: a b\ncommand: x\nresource:\n  cpu: 1\n  memory: 8Q\ntasks: 0\n")
    code, out, err = result(shared.cress("submit", "ok.yaml", "bad.yaml"))
    assert (code, out) == (2, "")
    assert [line.partition(" (")[0] for line in err.splitlines()] == [
        "cress submit: bad.yaml:3: name: 'a b' is not a name",
        "cress submit: bad.yaml:7: resource.memory: '8Q' has an unknown unit 'Q'",
        "cress submit: bad.yaml:8: tasks: 0 is too small",
    ]
    assert newest(shared) == before


def test_what_can_never_run_is_not_accepted(shared: Cluster) -> None:
    before = newest(shared)
    shared.file("wide.yaml", "command: x\nresource: <64>\n")
    code, out, err = result(shared.cress("submit", "wide.yaml"))
    assert (code, out) == (3, "")
    assert err.startswith("cress submit: wide.yaml:2: resource: one task is larger than every node")
    assert err.count("\n") == 1
    shared.file("nobody.yaml", "command: x\n---\ncommand: x\ngroup: nobody\n")
    assert result(shared.cress("submit", "nobody.yaml")) == (
        2,
        "",
        "cress submit: nobody.yaml:4: group: there is no group 'nobody' (one of default)\n",
    )
    assert newest(shared) == before


def test_a_job_from_standard_input_starts_in_the_current_directory(shared: Cluster) -> None:
    done = shared.cress("submit", "-", "--wait", "--json", stdin="command: pwd\n")
    assert done.returncode == 0, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    assert job["state"] == "succeeded"
    assert result(shared.cress("logs", job["id"])) == (0, f"{shared.folder}\n", "")


def test_waiting_that_is_interrupted_leaves_the_job_alone(shared: Cluster) -> None:
    shared.file("long.yaml", "command: sleep 600\nname: long\n")
    with shared.running("submit", "--wait", "long.yaml") as waiting:
        assert waiting.stdout is not None
        id = int(waiting.stdout.readline().split()[1])
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, err) == (
        130,
        f"cress submit: interrupted; the job goes on (stop: cress cancel {id})\n",
    )
    assert state_of(shared, id) in {"waiting", "running"}
    assert result(shared.cress("cancel", id)) == (0, f"job {id} (long) cancelled\n", "")
    wait_until(lambda: state_of(shared, id) == "cancelled", "the cancelled job being over")
    assert result(shared.cress("cancel", id)) == (0, f"job {id} (long) has already ended: cancelled\n", "")


def test_a_million_tasks_are_one_job(bare: Cluster) -> None:
    bare.start_center()
    bare.file("many.yaml", "command: 'true'\ntasks: 1000000\n")
    assert result(bare.cress("submit", "many.yaml")) == (0, "job 1 (true) submitted\n", "")
    job = json.loads(bare.cress("job", 1, "--json").stdout)
    assert (job["tasks"]["total"], job["tasks"]["waiting"], job["state"]) == (1_000_000, 1_000_000, "waiting")
    done = bare.cress("logs", 1)
    assert (done.returncode, done.stderr) == (
        2,
        "cress logs: job 1 has 1,000,000 tasks (name one, such as cress logs 1.0; or --all-tasks)\n",
    )
    assert bare.cress("cancel", 1).returncode == 0


# --- run --------------------------------------------------------------------------------------------------------------


def test_run_is_like_running_it_here(shared: Cluster) -> None:
    script = "echo out; echo err >&2; pwd; echo $GREETING; exit 7"
    done = shared.cress("run", "--env", "GREETING=hello world", "--", "sh", "-c", script)
    assert result(done) == (7, f"out\n{shared.folder}\nhello world\n", "err\n")


def test_run_tells_lines_of_several_tasks_apart_and_exits_with_the_highest_code(shared: Cluster) -> None:
    script = "echo a; echo b; printf c; exit $CRESS_TASK_INDEX"
    code, out, err = result(shared.cress("run", "--tasks", 3, "--", "sh", "-c", script))
    assert (code, err) == (2, "")
    assert sorted(out.splitlines()) == [f"[{task}] {line}" for task in range(3) for line in "abc"]


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        (["sh", "-c", "kill -9 $$"], 137, ""),
        (["no-such-program"], 127, "cress run: command not found: no-such-program\n"),
        (["--time-limit", "500ms", "sleep", "1000"], 124, "cress run: time limit of 0.5s exceeded\n"),
    ],
)
def test_run_of_what_ends_badly(shared: Cluster, command: list[str], code: int, sentence: str) -> None:
    assert result(shared.cress("run", *command)) == (code, "", sentence)
    job = json.loads(shared.cress("job", newest(shared), "--json").stdout)
    shown = shared.cress("job", newest(shared)).stdout
    assert job["state"] == ("timed out" if code == 124 else "failed")
    assert job["reason"] in shown


def test_run_with_a_wrong_option_names_the_option(shared: Cluster) -> None:
    before = newest(shared)
    done = shared.cress("run", "--tasks", 0, "--resource", "<1, 8Q>", "--time-limit", "soon", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    named = [line.partition(": ")[2].partition(":")[0] for line in done.stderr.splitlines()]
    assert named == ["--tasks", "--resource memory", "--time-limit"]
    assert newest(shared) == before


def test_the_first_interrupt_reaches_the_task(shared: Cluster) -> None:
    script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    with shared.running("run", "--", "sh", "-c", script) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (9, "caught\n", "")


def test_the_second_interrupt_cancels(shared: Cluster) -> None:
    script = "trap 'echo no' INT; echo ready; while :; do sleep 0.05; done"
    with shared.running("run", "--", "sh", "-c", script) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        run.send_signal(signal.SIGINT)
        assert run.stdout.readline() == "no\n"
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGTERM
    assert state_of(shared, newest(shared)) == "cancelled"


def test_an_interrupt_while_it_waits_cancels(shared: Cluster) -> None:
    shared.file("all.yaml", "command: sleep 600\nname: all\nresource: <4>\n")
    assert shared.cress("submit", "all.yaml").returncode == 0
    blocker = newest(shared)
    wait_until(lambda: state_of(shared, blocker) == "running", "the blocker running")
    with shared.running("run", "--resource", "<4>", "--", "true") as run:
        id = wait_until(lambda: newest(shared) > blocker and newest(shared), "the second job")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    assert run.returncode == 130
    assert state_of(shared, id) == "cancelled"
    shared.cress("cancel", blocker)
    wait_until(lambda: state_of(shared, blocker) == "cancelled", "the blocker being over")


def test_whoever_waits_is_told_why(shared: Cluster) -> None:
    shared.file("all.yaml", "command: sleep 600\nname: all\nresource: <4>\n")
    shared.file("one.yaml", "command: echo\nname: one\nresource: <2>\n")
    assert shared.cress("submit", "all.yaml").returncode == 0
    blocker = newest(shared)
    wait_until(lambda: state_of(shared, blocker) == "running", "the blocker running")
    reason = "no node has enough free; of 1 node 1 lacks cpu"
    with shared.running("submit", "--wait", "one.yaml") as first:
        id = wait_until(lambda: newest(shared) > blocker and newest(shared), "the job")
        with shared.running("logs", "-f", id) as second, shared.running("run", "--resource", "<2>", "true") as third:
            assert first.stderr is not None
            assert second.stderr is not None
            assert third.stderr is not None
            assert first.stderr.readline() == f"cress submit: job {id} (one) waits: {reason}\n"
            assert second.stderr.readline() == f"cress logs: job {id} waits: {reason}\n"
            assert third.stderr.readline().startswith(f"cress run: job {id + 1} waits: ")
            shared.cress("cancel", blocker)
            assert [each.wait(60) for each in (first, second, third)] == [0, 0, 0]


def test_run_outlives_a_center_that_is_killed_and_started_again(own: Cluster) -> None:
    gate = own.folder / "gate"
    script = f"echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two; exit 5"
    doors = [own.port("url"), own.port("executor_url")]
    with own.running("run", "--", "sh", "-c", script) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "one\n"
        assert own.center is not None
        own.center.kill()
        own.center.wait()
        (own.data / "center.json").unlink()
        own.start_center("--port", str(doors[0]), "--executor-port", str(doors[1]))
        gate.touch()
        out, err = run.communicate(timeout=60)
    assert (run.returncode, out) == (5, "two\n"), err


# --- looking ----------------------------------------------------------------------------------------------------------


def test_logs_follow_until_the_job_is_over(shared: Cluster) -> None:
    gate = Path(shared.folder / "gate")
    gate.unlink(missing_ok=True)
    shared.file("slow.yaml", f"command: echo one; while [ ! -e {gate} ]; do sleep 0.05; done; echo two\n")
    assert shared.cress("submit", "slow.yaml").returncode == 0
    id = newest(shared)
    with shared.running("logs", id, "--follow") as logs:
        assert logs.stdout is not None
        assert logs.stdout.readline() == "one\n"
        gate.touch()
        out, err = logs.communicate(timeout=60)
    assert (logs.returncode, out, err) == (0, "two\n", "")
    assert result(shared.cress("logs", f"{id}.0", "--stderr")) == (0, "", "")


def test_jobs_and_job_show_what_happened(shared: Cluster) -> None:
    shared.file("bad.yaml", BAD)
    assert shared.cress("submit", "--wait", "bad.yaml").returncode == 1
    id = newest(shared)
    listed = shared.cress("jobs", "--name", "bad", "--state", "failed")
    first = listed.stdout.splitlines()[1].split()
    assert (listed.returncode, first[0], first[1], first[4:6]) == (0, str(id), "bad", ["failed", "1/1"])
    page = json.loads(shared.cress("jobs", "--json").stdout)
    (job,) = [job for job in page["jobs"] if job["id"] == id]
    assert (job["name"], job["state"], job["command"]) == ("bad", "failed", ["/bin/sh", "-c", "false"])
    shown = shared.cress("job", id).stdout
    assert "State      failed\n" in shown
    assert "Command    /bin/sh -c false\n" in shown
    assert json.loads(shared.cress("job", f"{id}.0", "--json").stdout)["attempts"][0]["code"] == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("job", "99999"), "cress job: there is no job 99999"),
        (
            ("job", "x"),
            "cress job: there is no job 'x' (an id such as 12, or the name of a job; `cress jobs` lists them)",
        ),
        (
            ("logs", "1.x"),
            "cress logs: there is no job '1.x' (an id such as 12, or the name of a job; `cress jobs` lists them)",
        ),
        (("nodes", "n9"), "cress nodes: there is no node 'n9' (one of n1)"),
        (("nodes", "cordon", "n9"), "cress nodes cordon: there is no node 'n9' (one of n1)"),
    ],
)
def test_what_is_not_there(shared: Cluster, arguments: tuple[str, ...], sentence: str) -> None:
    done = shared.cress(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1


def test_nodes_are_cordoned_and_taken_back(shared: Cluster) -> None:
    assert result(shared.cress("nodes", "cordon", "n1", "--reason", "new disk")) == (
        0,
        "node n1 takes no new tasks (new disk)\n",
        "",
    )
    lines = shared.cress("nodes").stdout.splitlines()
    assert result(shared.cress("nodes", "uncordon", "n1")) == (0, "node n1 takes tasks\n", "")
    # Its load is shown as soon as it has told it.
    shown = [each for each in lines[0].split() if each != "LOAD"]
    assert shown == ["NAME", "STATE", "RACK", "TASKS", "CPU", "MEMORY", "REASON"]
    assert lines[1].split()[:6] == ["n1", "cordoned", "-", "0", "0/4", "0/8G"]
    assert lines[1].endswith(" new disk")
    assert json.loads(shared.cress("nodes", "n1", "--json").stdout)["state"] == "up"


def test_a_reader_that_leaves_is_no_error(shared: Cluster) -> None:
    shared.file("lines.yaml", "command: seq 200000\n")
    assert shared.cress("submit", "--wait", "lines.yaml").returncode == 0
    with shared.running("logs", newest(shared)) as logs:
        assert logs.stdout is not None
        assert logs.stdout.readline() == "1\n"
        logs.stdout.close()
        assert logs.wait(60) == 1
        assert logs.stderr is not None
        assert logs.stderr.read() == ""


# --- groups -----------------------------------------------------------------------------------------------------------

GROUPS = """\
Name: web
ResourceQuota: 3

Name: default
ResourceQuota: 1
"""


def test_groups_are_applied_with_a_diff_and_written_back(own: Cluster) -> None:
    own.file("Group.conf", GROUPS)
    dry = own.cress("groups", "apply", "Group.conf", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "web" in dry.stdout
    assert dry.stdout.splitlines()[-1].endswith("would be made")
    assert "web" not in own.cress("groups").stdout
    real = own.cress("groups", "apply", "Group.conf")
    assert real.stdout.splitlines()[:-1] == dry.stdout.splitlines()[:-1]
    assert real.stdout.splitlines()[-1].endswith(" made")
    assert [line.split()[:2] for line in own.cress("groups").stdout.splitlines()[1:]] == [
        ["default", "1"],
        ["web", "3"],
    ]
    text = own.cress("groups", "show").stdout
    again = own.cress("groups", "apply", "-", stdin=text)
    assert (again.returncode, again.stdout) == (0, "nothing changed\n")
    assert [line.split(":")[3] for line in again.stderr.splitlines()] == [" Priority", " UsedResource"]


def test_a_bad_file_of_groups_changes_nothing(own: Cluster) -> None:
    before = own.cress("groups", "show").stdout
    own.file("Group.conf", "Name: web\nResourceQuota: lots\nWieght: 3\n")
    done = own.cress("groups", "apply", "Group.conf")
    assert (done.returncode, done.stdout) == (2, "")
    places = [line.split(":")[1:3] for line in done.stderr.splitlines()]
    assert places == [[" Group.conf", "2"], [" Group.conf", "3"]]
    assert own.cress("groups", "show").stdout == before


# --- who, where -------------------------------------------------------------------------------------------------------


def test_a_wrong_token_is_refused(shared: Cluster) -> None:
    with shared.client() as client:
        url = client.url
    done = shared.cress("jobs", CRESS_URL=url, CRESS_TOKEN="wrong")
    assert (done.returncode, done.stdout) == (3, "")
    assert (
        f"the center at {url}/ does not know this token: wrong cluster or wrong token. The token was not" in done.stderr
    )
    assert "Take one from `cress token create`" in done.stderr
    assert done.stderr.count("\n") == 1
    done = shared.cress("jobs", CRESS_URL=url)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("cress jobs: CRESS_URL is set and CRESS_TOKEN is not")


def test_a_token_that_others_can_read_is_not_used(own: Cluster) -> None:
    (own.data / "token").chmod(0o644)
    done = own.cress("status")
    assert (done.returncode, done.stdout) == (2, "")
    token = own.data / "token"
    assert done.stderr == f"cress status: other users may read or change the token {token} (chmod 600 {token})\n"


def test_a_center_that_is_gone(bare: Cluster) -> None:
    missing = f"cress status: no center runs on {bare.data} (start one with `cress up --data {bare.data}`)\n"
    assert result(bare.cress("status")) == (3, "", missing)
    bare.start_center()
    assert bare.cress("status").returncode == 0
    assert bare.center is not None
    bare.center.kill()
    bare.center.wait()
    done = bare.cress("status")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("cress status: no center answers at http://127.0.0.1:")
    assert done.stderr.endswith(f"(connection refused); start one with `cress up --data {bare.data}`\n")
