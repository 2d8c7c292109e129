"""Licences of a real cluster: taken by tasks, remembered by a new center, more of them at SIGHUP; and slots of
nodes.
"""

from __future__ import annotations

import signal

from tests.system.cluster import Cluster, wait_until

# Tells that it runs, and stays until it may go.
HOLD = ["sh", "-c", "touch up$CRESS_TASK_INDEX; while [ ! -e go ]; do sleep 0.05; done"]


def test_licences_of_the_cluster_and_slots_of_nodes(bare: Cluster) -> None:
    # One cluster for both: it takes longer to start than both take.
    tasks_take_licences_over_a_restart_of_the_center_and_more_wake_who_waits(bare)
    slots_are_a_dimension_of_nodes(bare)


def tasks_take_licences_over_a_restart_of_the_center_and_more_wake_who_waits(bare: Cluster) -> None:
    file = bare.file("licences.yaml", "licences: {matlab: 2, ansys: 1}\n")
    bare.start_center("--licences", str(file), "--dimension", "slots")
    bare.start_executor("n1", "cpu=8, memory=8G, slots=2")
    with bare.client() as client:
        unknown = bare.cress("run", "--licence", "matlap", "--", "true")
        assert (unknown.returncode, unknown.stderr) == (
            2,
            "cress run: --licence: there is no licence 'matlap' (did you mean matlab?)\n",
        )
        much = bare.cress("run", "--licence", "matlab=3", "--", "true")
        assert much.returncode == 3
        assert "3 of licence matlab are needed, but only 2 exist" in much.stderr
        done = bare.cress("run", "--licence", "ansys", "--", "echo", "done")
        assert (done.returncode, done.stdout) == (0, "done\n")
        job = (
            client.submit(
                [
                    {
                        "command": HOLD,
                        "tasks": 3,
                        "licences": "matlab",
                        "resource": "<1, 64M>",
                        "directory": str(bare.folder),
                    }
                ]
            )
            .jobs[0]
            .id
        )
        wait_until(lambda: client.job(job).tasks.running == 2, "two of three run")
        assert wait_until(lambda: client.job(job).reason, "the reason") == "waiting for licence matlab: 2 of 2 in use"
        table = bare.cress("licences")
        assert [line.split() for line in table.stdout.splitlines()] == [
            ["NAME", "TOTAL", "IN", "USE", "FREE", "JOBS", "WAITING"],
            ["ansys", "1", "0", "1", "-", "-"],
            ["matlab", "2", "2", "0", str(job), "(sh)", "×2", str(job), "(sh)"],
        ]
        bare.kill_center()
        bare.start_center("--licences", str(file))
        (_, matlab) = client.licences().licences
        assert (matlab.in_use, matlab.free, matlab.waiting) == (2, 0, 1)
        assert client.job(job).tasks.running == 2

        center = bare.center
        assert center is not None
        file.write_text("licences:\n  matlab: many\n")
        center.send_signal(signal.SIGHUP)
        told = f"cress center: {file}:2: licences.matlab: 'many' is not a whole number"
        wait_until(lambda: told in bare.log("center.log"), "the mistake is told")
        wait_until(lambda: "the licences stay as they were" in bare.log("center.log"), "and what becomes of it")
        assert client.licences().licences[1].total == 2
        file.write_text("licences: {matlab: 3}\n")
        center.send_signal(signal.SIGHUP)
        wait_until(lambda: client.job(job).tasks.running == 3, "the third one runs")
        (matlab,) = client.licences().licences
        assert (matlab.total, matlab.in_use, matlab.free) == (3, 3, 0)
        (bare.folder / "go").touch()
        wait_until(lambda: client.job(job).state == "succeeded", "its end")
        assert [each.in_use for each in client.licences().licences] == [0]


def slots_are_a_dimension_of_nodes(bare: Cluster) -> None:
    (bare.folder / "go").unlink()
    with bare.client() as client:
        job = (
            client.submit(
                [
                    {
                        "command": HOLD,
                        "tasks": 3,
                        "resource": {"cpu": 0.1, "slots": 1},
                        "directory": str(bare.folder),
                    }
                ]
            )
            .jobs[0]
            .id
        )
        wait_until(lambda: client.job(job).tasks.running == 2, "two of three run")
        assert wait_until(lambda: client.job(job).reason, "the reason") == (
            "no node has enough free; of 1 node 1 lacks slots"
        )
        (bare.folder / "go").touch()
        wait_until(lambda: client.job(job).state == "succeeded", "its end")
