"""Dags whose steps hand on values and have conditions, and cron jobs whose runs are dags, on a real cluster."""

from __future__ import annotations

import json
import socket

from cress import Job
from cress.client import Client
from tests.system.cluster import Cluster, wait_until
from tests.system.test_job_types import facts, said

ETL = """\
name: etl
type: dag
resource: <0.1, 20M>
steps:
  check:
    command: |
      echo rows=12 >> $CRESS_OUTPUT
      echo "kind=two words" >> $CRESS_OUTPUT
  train:
    command: 'echo "trained on $CRESS_OUTPUT_CHECK_ROWS rows, $CRESS_OUTPUT_CHECK_KIND"; echo loss=0.3 >> $CRESS_OUTPUT'
    after: [check]
    when: check.rows > 10
  small: {command: "true", after: [check], when: check.rows <= 10}
  publish: {command: 'test -e FLAG; echo "published at $CRESS_OUTPUT_TRAIN_LOSS"', after: [train], when: train.loss < 1}
"""
NIGHTLY = """\
name: nightly
type: cron
when: "0 3 * * *"
resource: <0.1, 20M>
steps:
  load: {command: 'echo "day $CRESS_SCHEDULED"; echo rows=7 >> $CRESS_OUTPUT'}
  report: {command: 'echo "$CRESS_SCHEDULED_BEFORE: $CRESS_OUTPUT_LOAD_ROWS rows"', after: [load], when: load.rows > 0}
"""


def ends(client: Client, number: int) -> None:
    """Wait for the end of a job."""
    wait_until(lambda: client.job(number).ended, f"the end of job {number}")


def test_steps_hand_on_values_and_are_left_out_by_them(own: Cluster) -> None:
    own.file("etl.yaml", ETL.replace("test -e FLAG", f"test -e {own.folder}/FLAG || exit 3"))
    assert said(own.cress("submit", "etl.yaml")) == ["job 1 (etl) submitted"]
    with own.client() as client:
        ends(client, 1)
        assert client.job(2).values == {"rows": "12", "kind": "two words"}
        dag = client.job(1).dag
        assert dag is not None
        assert {step.name: step.state for step in dag.steps} == {
            "check": "succeeded",
            "train": "succeeded",
            "small": "cancelled",
            "publish": "failed",
        }
        assert client.job(4).reason == "left out: check.rows <= 10 does not hold"
        assert facts(own, "etl.check")["Values"] == "rows=12 kind='two words'"
        assert own.cress("logs", "etl.train").stdout == "trained on 12 rows, two words\n"
        # What ended before is known to the rest, also when the rest is resumed twice; what was left out is asked again.
        for number in (6, 9):
            assert own.cress("resume", "etl" if number == 6 else 6).returncode == 0
            ends(client, number)
            (own.folder / "FLAG").touch()
        assert client.job(9).state == "succeeded"
        assert own.cress("logs", 11).stdout == "published at 0.3\n"

        # A file of values that nobody can read fails its task.
        own.file("bad.yaml", "command: echo rows >> $CRESS_OUTPUT\nname: bad\n")
        assert own.cress("submit", "bad.yaml").returncode == 0
        ends(client, 12)
        told = client.task(12, 0).attempts[0].error
        assert told == "$CRESS_OUTPUT: line 1: 'rows' is not KEY=VALUE (lines such as rows=120, in UTF-8)"

        # A cron job whose runs are dags.
        own.file("nightly.yaml", NIGHTLY)
        assert said(own.cress("apply", "nightly.yaml")) == ["job 13 (nightly) created"]
        assert said(own.cress("apply", "nightly.yaml")) == ["job 13 (nightly) unchanged"]
        triggered = own.cress("trigger", "nightly", "--at", "2026-11-02 03:00 +00:00")
        assert triggered.returncode == 0, triggered.stderr
        ends(client, 14)
        run = client.job(14)
        assert (run.type, run.family, run.index, run.state) == ("dag", 13, 0, "succeeded")
        logs = own.cress("logs", "nightly").stdout
        assert "day 2026-11-02T03:00:00Z\n" in logs
        assert "2026-11-01T03:00:00Z: 7 rows\n" in logs
        assert run.dag is not None
        assert run.dag.steps[1].after == {"load": "ok"}
        # A resumed run works for the same moment, also when it is resumed again.
        for number, ended in ((17, 14), (20, 17)):
            assert own.cress("resume", ended, "--from", "load").returncode == 0
            ends(client, number)
            assert own.cress("logs", number + 1).stdout == "day 2026-11-02T03:00:00Z\n"
        own.file("nightly.yaml", NIGHTLY.replace("load.rows > 0", "load.rows > 10"))
        assert said(own.cress("apply", "--diff", "nightly.yaml"))[0] == "job 13 (nightly) would be updated"
        assert said(own.cress("apply", "nightly.yaml"))[0] == "job 13 (nightly) updated"
        assert own.cress("trigger", "nightly").returncode == 0
        wait_until(lambda: client.jobs(family=13).jobs[0].ended, "the end of the second run")
        listed = json.loads(own.cress("jobs", "--json", "--family", "nightly").stdout)["jobs"]
        assert [(job["type"], job["state"], job["tasks"]["cancelled"]) for job in listed] == [
            ("dag", "succeeded", 1),
            ("dag", "succeeded", 0),
        ]
        assert said(own.cress("cancel", "nightly")) == ["job 13 (nightly) cancelled"]


def test_a_job_starts_when_the_file_and_the_page_are_there(bare: Cluster) -> None:
    shared = bare.folder / "shared"
    shared.mkdir()
    bare.start_center("--wait-folder", str(shared), "--wait-host", "127.0.0.1")
    bare.start_executor()
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    server.close()
    things = [{"path": f"{shared}/in.csv", "every": "1s"}, {"address": f"127.0.0.1:{port}", "every": "1s"}]
    with bare.client() as client:
        waiting = Job("cat in.csv", directory=shared, wait_for=things, resource="<0.1, 20M>")
        job, outside = client.submit([waiting.mapping(), Job("true", wait_for="/etc/passwd").mapping()]).jobs
        ends(client, outside.id)
        told = client.job(outside.id).reason
        assert told == "path /etc/passwd: it is not in a folder in which jobs may wait for files (--wait-folder)"
        assert client.job(job.id).reason == f"waiting for path {shared}/in.csv, and 1 more"
        (shared / "in.csv").write_text("data\n")
        wait_until(lambda: client.job(job.id).reason.startswith("waiting for address"), "the file to be seen")
        with socket.create_server(("127.0.0.1", port)):
            ends(client, job.id)
        assert client.job(job.id).state == "succeeded"
