"""The log of a real center: told as a story with and without its files, and replayed after a kill."""

from __future__ import annotations

import csv

from tests.system.cluster import Cluster, wait_until


def test_a_real_log_is_told_with_and_without_its_files_and_replayed_after_a_kill() -> None:
    cluster = Cluster()
    try:
        cluster.start_center()
        cluster.start_executor("n1", "<2, 4G>")
        with cluster.client() as client:
            jobs = [
                {"name": name, "command": "true", "resource": "<1, 1G>", "time_limit": "30s"} for name in ("one", "two")
            ]
            numbers = [job.id for job in client.submit(jobs).jobs]
            wait_until(lambda: all(client.job(number).state == "succeeded" for number in numbers), "the ends of jobs")
        token = (cluster.data / "token").read_text().strip()
        asked = cluster.cress("story", "one", CRESS_DATA="", CRESS_URL=cluster.address("url"), CRESS_TOKEN=token)
        assert (asked.returncode, asked.stderr) == (0, "")
        kinds = ("job.submitted", "task.placed", "task.ended", "job.ended")
        assert all(kind in asked.stdout for kind in kinds), asked.stdout
        # The same table from the log and from the center, but for the moment from which seconds are counted.
        elsewhere = {"CRESS_DATA": "", "CRESS_URL": cluster.address("url"), "CRESS_TOKEN": token}
        tables = [cluster.cress("export"), cluster.cress("export", **elsewhere)]
        assert [(one.returncode, one.stderr) for one in tables] == [(0, "")] * 2
        log, api = (list(csv.DictReader(one.stdout.splitlines())) for one in tables)
        moments = ("submit", "start", "end")
        assert [{key: row[key] for key in row if key not in moments} for row in api] == [
            {key: row[key] for key in row if key not in moments} for row in log
        ]
        assert [row["state"] for row in api] == ["succeeded"] * 2
        assert {float(a["submit"]) - float(b["submit"]) for a, b in zip(log, api, strict=True)} == {
            float(log[0]["submit"])
        }
        cluster.kill_center()
        cluster.start_center()
        with cluster.client() as client:
            wait_until(lambda: [node.state for node in client.nodes()] == ["up"], "the node's return")
        told = cluster.cress("story", "one")
        assert "1.0 (one) ended: succeeded" in told.stdout
        assert "the job is over: succeeded" in told.stdout
        replayed = cluster.cress("replay")
        assert (replayed.returncode, replayed.stderr) == (0, "")
        assert "restarts  1" in replayed.stdout
        assert replayed.stdout.endswith("every decision is the same\n")
    finally:
        cluster.stop()
