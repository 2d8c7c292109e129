"""Daily use on a real cluster: versions of services, runs of cron jobs, dags again, allocations, parameters, output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cress.client import JobView, calls
from tests.system.cluster import Cluster, wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        cluster.start_center()
        cluster.start_executor("n1", "<8, 4G>")
        yield cluster
    finally:
        cluster.stop()


def said(cluster: Cluster, *words: object, code: int = 0, stdin: str = "") -> str:
    """What a command says."""
    done = cluster.cress(*words, stdin=stdin)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def ended(cluster: Cluster, job: int) -> JobView:
    with cluster.client() as client:
        wait_until(lambda: client.job(job, wait=5).ended is not None, f"the end of job {job}")
        return client.job(job)


WEB = """\
name: web
type: service
tasks: 2
resource: <0.2, 64M>
max_unavailable: 0
surge: 1
environment: {{COLOUR: {colour}}}
command: exec sleep 1000
"""


def has_version(cluster: Cluster, version: int) -> None:
    """Wait until all tasks of the service have this version, and are ready."""
    with cluster.client() as client:
        number = next(view.id for view in client.jobs(name="web", type="service").jobs)

        def ready() -> bool:
            service = client.job(number).service
            assert service is not None
            return (service.version, service.updated, service.ready) == (version, 2, 2)

        wait_until(ready, f"version {version}")


def test_versions_of_a_service_come_back_and_a_restart_is_one(cluster: Cluster) -> None:
    file = cluster.file("web.yaml", WEB.format(colour="red"))
    said(cluster, "apply", "--wait", file)
    cluster.file("web.yaml", WEB.format(colour="blue"))
    said(cluster, "apply", "--wait", file)
    assert "is being restarted as version 3" in said(cluster, "restart", "web")
    has_version(cluster, 3)
    assert "is being updated to version 4, which is version 1 again" in said(cluster, "revert", "web", 1)
    has_version(cluster, 4)
    with cluster.client() as client:
        (view,) = client.jobs(name="web", type="service").jobs
        assert client.job(view.id).environment["COLOUR"] == "red"
        page = client.ask(calls.versions(view.id))
    assert [(version.version, [change.key for change in version.changes]) for version in page.versions] == [
        (4, ["environment.COLOUR"]), (3, []), (2, ["environment.COLOUR"]), (1, []),
    ]  # fmt: skip
    listed = said(cluster, "versions", "web").splitlines()
    assert listed[0].split() == ["VERSION", "SINCE", "BY", "STATE", "CHANGED"]
    assert "present" in listed[1]
    assert "has no version 9 in its list (one of 1, 2, 3, 4)" in said(cluster, "revert", "web", 9, code=2)
    assert "has no update that waits for a promotion" in said(cluster, "promote", "web", code=3)
    said(cluster, "apply", cluster.file("web.yaml", WEB.format(colour="green") + "canary: 1\n"))
    with cluster.client() as client:

        def waiting() -> bool:
            service = client.job(view.id).service
            assert service is not None
            return "the others follow after `cress promote" in service.waits

        wait_until(waiting, "the canary")
        service = client.job(view.id).service
    # The task in addition is none of the two.
    assert service is not None
    assert (service.updated, service.ready, service.updating) == (1, 2, True)
    said(cluster, "promote", "web")
    has_version(cluster, 5)
    said(cluster, "cancel", "web")


def test_a_cron_job_is_triggered_and_its_runs_know_their_moment(cluster: Cluster) -> None:
    text = "name: nightly\ntype: cron\nwhen: 0 3 * * *\nresource: <0.2, 64M>\n"
    file = cluster.file("cron.yaml", text + 'command: "echo $CRESS_SCHEDULED after $CRESS_SCHEDULED_BEFORE"\n')
    said(cluster, "submit", file)
    with cluster.client() as client:
        (cron,) = client.jobs(name="nightly", type="cron").jobs
        page = client.ask(calls.trigger(cron.id, since=1_700_000_000.0, until=1_700_110_000.0))
        assert len(page.jobs) == 2
    runs = [ended(cluster, made.id) for made in page.jobs]
    assert runs[1].started is not None
    assert runs[0].ended is not None
    assert runs[0].ended <= runs[1].started
    assert said(cluster, "logs", runs[1].id) == "2023-11-16T03:00:00Z after 2023-11-15T03:00:00Z\n"
    (line,) = said(cluster, "trigger", "nightly").splitlines()
    assert ended(cluster, int(line.split()[1])).state == "succeeded"
    assert "has no moment in this span of time" in said(
        cluster, "trigger", cron.id, "--since", "2020-01-01", "--until", "2020-01-01 02:00", code=2
    )
    said(cluster, "cancel", cron.id)


DAG = """\
name: etl
type: dag
resource: <0.2, 64M>
steps:
  a: {command: "echo a >> ran"}
  b: {command: "echo b >> ran; test -e good", after: [a]}
  c: {command: "echo c >> ran", after: [b]}
  d: {command: "echo d >> ran"}
"""


def test_a_dag_is_resumed_from_a_step_of_single_steps_and_with_a_corrected_file(cluster: Cluster) -> None:
    folder = cluster.folder / "dag"
    folder.mkdir()
    file = cluster.file("etl.yaml", DAG.replace("name: etl", f"name: etl\ndirectory: {folder}"))
    first = int(said(cluster, "submit", file).split()[1])
    assert ended(cluster, first).state == "failed"
    ran = folder / "ran"

    def again(dag: int, *words: object) -> tuple[int, str]:
        ran.unlink()
        made = int(said(cluster, "resume", dag, *words).split()[1])
        ended(cluster, made)
        return made, "".join(sorted(ran.read_text().split()))

    assert again(first) == (first + 5, "b")
    (folder / "good").touch()
    number, steps = again(first, "--from", "a")
    assert steps == "abc"
    assert again(first, "--only", "d")[1] == "d"
    text = DAG.replace("name: etl", f"name: etl\ndirectory: {folder}").replace("echo b >>", "echo B >>")
    cluster.file("etl.yaml", text + "  e: {command: 'echo e >> ran', after: [c]}\n")
    assert again(first, "--file", file)[1] == "Bce"
    assert "there is no step x" in said(cluster, "resume", first, "--from", "x", code=2)
    assert number > first


def test_an_allocation_runs_a_program_and_is_given_back(cluster: Cluster) -> None:
    done = cluster.cress(
        "alloc", "--tasks", 2, "--resource", "<1, 64M>", "--", "sh", "-c", "echo in $CRESS_JOB_ID; exit 5"
    )
    assert done.returncode == 5, done.stderr
    job = int(done.stdout.split()[1])
    assert f"job {job} has 2 tasks on n1" in done.stderr
    assert ended(cluster, job).state == "cancelled"


def test_run_detached_takes_any_key_and_prints_the_id_alone(cluster: Cluster) -> None:
    words = ["--set", "retries=3", "--set", "backoff=1s", "--set", "labels.tier=x", "--set", "hold=true"]
    script = 'echo "ran $CRESS_RESTARTS times"; [ $CRESS_RESTARTS -gt 0 ]'
    job = int(said(cluster, "run", "--detach", *words, "--name", "true", "--", "sh", "-c", script))
    with cluster.client() as client:
        assert (client.job(job).retries, client.job(job).labels) == (3, {"tier": "x"})
    assert said(cluster, "release", "--label", "tier=x") == f"job {job} (true) is released\n"
    assert ended(cluster, job).state == "succeeded"
    assert said(cluster, "logs", job) == "ran 1 times\n"
    assert said(cluster, "jobs", "--label", "tier=x", "-o", "name") == f"{job}\n"
    assert "is not KEY=VALUE" in said(cluster, "run", "--set", "retries", "--", "true", code=2)


def test_parameters_make_a_job_for_each_combination(cluster: Cluster) -> None:
    file = cluster.file("train.yaml", "name: t-{{lr}}\nresource: <0.2, 64M>\ncommand: echo {{lr}} $PARAM_SEED\n")
    table = cluster.file("runs.csv", "seed\n1\n2\n")
    lines = said(cluster, "submit", "-p", "lr=0.1", "-p", "lr=0.2", "--csv", table, file).splitlines()
    jobs = [int(line.split()[1]) for line in lines]
    assert [ended(cluster, job).name for job in jobs] == ["t-0.1", "t-0.2", "t-0.1", "t-0.2"]
    assert [said(cluster, "logs", job) for job in jobs] == ["0.1 1\n", "0.2 1\n", "0.1 2\n", "0.2 2\n"]


def test_lists_for_other_programs(cluster: Cluster) -> None:
    head, *rows = said(cluster, "nodes", "-o", "csv", "--columns", "name,state").splitlines()
    assert (head, rows) == ("name,state", ["n1,up"])
    assert said(cluster, "nodes", "-o", "name") == "n1\n"
    assert json.loads(said(cluster, "nodes", "-o", "json"))["nodes"][0]["name"] == "n1"
    assert '- name: "n1"' in said(cluster, "nodes", "-o", "yaml")
    assert "is not one of json, yaml, csv, name" in said(cluster, "jobs", "-o", "xml", code=2)


def test_the_job_file_of_a_job_is_submitted_again(cluster: Cluster) -> None:
    script = "echo one\n  echo two\n"
    first = said(
        cluster, "submit", "--name", "filed", "--set", "resource=<0.2, 64M>", "--", "sh", "-c", script
    ).split()[1]
    text = said(cluster, "job", first, "-o", "yaml")
    assert '  - "-c"\n  - |2\n    echo one\n      echo two\n' in text
    again = said(cluster, "submit", cluster.file("again.yaml", text)).split()[1]
    ended(cluster, int(again))
    assert said(cluster, "logs", again) == "one\ntwo\n"
    assert said(cluster, "job", again, "-o", "yaml") == text
    assert "'json' is not a format (yaml, the job file" in said(cluster, "job", again, "-o", "json", code=2)
    assert "--set tasks: '' is not a whole number" in said(cluster, "submit", "--set", "tasks=", "--", "true", code=2)


def test_the_shell_completes_what_is_there(cluster: Cluster) -> None:
    job = int(said(cluster, "run", "--detach", "--name", "completed", "--", "sleep", "1000"))
    words = {"_CRESS_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    assert cluster.cress(COMP_WORDS="cress cancel compl", **words).stdout.split() == ["completed"]
    assert str(job) in cluster.cress(COMP_WORDS=f"cress job {job}", **words).stdout.split()
    assert cluster.cress(COMP_WORDS="cress job x", CRESS_URL="http://127.0.0.1:1", **words).stdout.split() == []
    said(cluster, "cancel", job)


BACK = """\
name: back
type: service
tasks: {tasks}
resource: <0.1, 32M>
ports: dynamic
command: exec sleep 1000
"""
FRONT = """\
name: front
resource: <0.3, 128M>
job_token: true
directory: {folder}
command: |
  cat > reader <<'END'
  trap 'cat pool' USR1
  cat pool
  while :; do sleep 0.1; done
  END
  exec {cress} render pool.tmpl pool --signal USR1 -- sh reader
"""


def test_a_file_follows_the_places_of_a_service_and_its_reader_gets_a_signal(cluster: Cluster) -> None:
    folder = cluster.folder / "front"
    folder.mkdir()
    lines = ("pool of {{all back}}", "{{each back}}", "task {{task}} on {{node}} port {{port}}", "{{end}}")
    (folder / "pool.tmpl").write_text("\n".join([*lines, ""]))
    cress = Path(sys.executable).parent / "cress"
    job = int(said(cluster, "submit", cluster.file("front.yaml", FRONT.format(folder=folder, cress=cress))).split()[1])

    def shows(count: int) -> bool:
        text = cluster.cress("logs", job).stdout.rpartition("pool of ")[2]
        return [int(line.split()[1]) for line in text.splitlines()[1:]] == [*range(count)]

    for count in (1, 3, 2):
        said(cluster, "apply", cluster.file("back.yaml", BACK.format(tasks=count)))
        wait_until(partial(shows, count), f"a file with {count} places")
    said(cluster, "cancel", "back")
    assert "'UP' is not a signal" in said(cluster, "render", "x", "y", "--signal", "UP", "--", "true", code=2)
    said(cluster, "cancel", job)
    assert ended(cluster, job).state == "cancelled"
