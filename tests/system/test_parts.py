"""Gangs with parts as real processes: each part has its own program and node, all start together, and one that fails
takes all along.
"""

from __future__ import annotations

from tests.system.cluster import Cluster, wait_until

TRAIN = """
name: train
retries: 1
backoff: 0
environment: {{HERE: "{folder}"}}
parts:
  driver:
    resource: <1, 512M>
    command: 'echo "$CRESS_NODE $CRESS_PART $CRESS_PART_INDEX/$CRESS_PART_COUNT $CRESS_TASK_INDEX/$CRESS_TASK_COUNT" >> $HERE/said; until [ -e $HERE/go ]; do sleep 0.1; done'
  workers:
    tasks: 2
    resource: <2, 64M>
    requirement: Fast = True
    command: '{worker}'
"""  # noqa: E501
# The second worker fails when it is told to; until then, and otherwise, all go on.
WORKER = (
    'echo "$CRESS_NODE $CRESS_PART $CRESS_PART_INDEX/$CRESS_PART_COUNT $CRESS_TASK_INDEX/$CRESS_TASK_COUNT" '
    ">> $HERE/said; "
    "until [ -e $HERE/go ]; do sleep 0.1; [ $CRESS_PART_INDEX = 0 ] || ! rm $HERE/fail 2> /dev/null || exit 3; done"
)
SAID = ["n1 driver 0/1 0/3", "n2 workers 0/2 1/3", "n2 workers 1/2 2/3"]


def test_a_driver_and_its_workers_start_together_and_fail_together(bare: Cluster) -> None:
    bare.start_center()
    bare.start_executor("n1", "<1, 1G>")
    bare.start_executor("n2", "<4, 256M>", "--label", "Fast=true")
    said = bare.folder / "said"
    with bare.client() as client:
        other = (
            client.submit([{"command": "sleep 600", "resource": "<1, 64M>", "requirement": "Fast = True"}]).jobs[0].id
        )
        wait_until(lambda: client.job(other).state == "running", "the other job")
        text = TRAIN.format(folder=bare.folder, worker=WORKER)
        sent = bare.cress("submit", bare.file("train.yaml", text))
        assert sent.returncode == 0, sent.stderr
        train = other + 1
        wait_until(lambda: "part workers: 1 of 2 places" in client.job(train).reason, "the reason")
        assert not said.exists()
        client.cancel(other)
        wait_until(lambda: said.exists() and len(said.read_text().splitlines()) == 3, "the first start")
        assert sorted(said.read_text().splitlines()) == SAID
        started = {task.attempts[0].placed for task in client.tasks(train).tasks}
        assert len(started) == 1

        shown = bare.cress("job", train).stdout
        assert "Part driver   1 task, cpu 1, memory 512M each: " in shown
        assert "(Fast = True)" in shown
        assert "workers 1" in shown

        # One worker fails: all three are stopped, and start again together.
        (bare.folder / "fail").touch()
        wait_until(lambda: len(said.read_text().splitlines()) == 6, "the second start")
        assert sorted(said.read_text().splitlines()[3:]) == SAID
        (bare.folder / "go").touch()
        wait_until(lambda: client.job(train).state == "succeeded", "the end")
        tasks = client.tasks(train).tasks
        assert [(task.part, task.part_index, len(task.attempts)) for task in tasks] == [
            ("driver", 0, 2),
            ("workers", 0, 2),
            ("workers", 1, 2),
        ]


def test_a_part_that_no_node_could_run_is_refused_where_it_stands(bare: Cluster) -> None:
    bare.start_center()
    bare.start_executor("n1", "<4, 1G>")
    text = (
        "name: t\nparts:\n  driver: {command: sleep 1}\n  workers:\n    tasks: 2\n    resource: <8, 64M>\n    "
        "command: sleep 1\n"
    )
    with bare.client() as client:
        wait_until(client.nodes, "n1")
    refused = bare.cress("submit", bare.file("t.yaml", text))
    assert refused.returncode != 0
    assert "t.yaml:6: parts.workers.resource: part workers: one task is larger than every node" in refused.stderr
