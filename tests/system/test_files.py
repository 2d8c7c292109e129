"""Files and outputs of jobs, and their logs, from the job file to the disk and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.sites import Site
from tests.system.cluster import Cluster, wait_until


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path / "site") as it:
        yield it


def newest(cluster: Cluster) -> int:
    with cluster.client() as client:
        return max((job.id for job in client.jobs(limit=1).jobs), default=0)


def test_files_come_outputs_go_and_logs_are_copied(shared: Cluster, site: Site, tmp_path: Path) -> None:
    site.put("words-0", b"zero\n")
    site.put("words-1", b"one\n")
    (tmp_path / "tool").write_text("#!/bin/sh\ntr a-z A-Z < words\n")
    shared.file(
        "files.yaml",
        f"""
name: shout
command: ./tool | tee result
tasks: 2
files:
  - source: {site.fill("{site}")}/words-$CRESS_TASK_INDEX
    path: words
  - source: {tmp_path}/tool
    path: tool
    mode: 755
outputs:
  result: {tmp_path}/out/$CRESS_JOB_NAME-$CRESS_TASK_INDEX
  resul?: {site.fill("{site}")}/done/$CRESS_TASK_INDEX
log_copy: {tmp_path}/logs
log_size: 1M
""",
    )
    done = shared.cress("submit", "files.yaml", "--wait")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert (tmp_path / "out/shout-0").read_text() == "ZERO\n"
    assert (tmp_path / "out/shout-1").read_text() == "ONE\n"
    assert site.taken == {"/done/0/result": b"ZERO\n", "/done/1/result": b"ONE\n"}
    copied = wait_until(lambda: [*(tmp_path / f"logs/{newest(shared)}/1").glob("*/stdout")], "a copied log")
    wait_until(lambda: copied[0].read_text() == "ONE\n", "what was written")


SENTENCES = {
    "files": (
        "command: 'true'\nfiles: {x: /no/such}\n",
        "x could not be fetched from /no/such: /no/such does not exist on this node",
    ),
    "outputs": (
        "command: 'true'\noutputs: {x: /tmp/never}\n",
        "x could not be saved to /tmp/never: the program left no such file",
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_what_went_wrong_is_told_where_people_look(shared: Cluster, case: str) -> None:
    text, sentence = SENTENCES[case]
    shared.file("wrong.yaml", text)
    done = shared.cress("submit", "wrong.yaml", "--wait")
    assert done.returncode == 1
    said = shared.cress("job", newest(shared)).stdout
    assert sentence in " ".join(said.split()), said


def test_files_that_do_not_come_are_tried_again_by_retries(shared: Cluster, tmp_path: Path) -> None:
    shared.file("late.yaml", f"command: cat x\nretries: 1\nbackoff: 2s\nfiles: {{x: {tmp_path}/late}}\n")
    done = shared.cress("submit", "late.yaml")
    assert done.returncode == 0
    id = newest(shared)
    with shared.client() as client:
        wait_until(
            lambda: len(client.tasks(id).tasks[0].attempts) == 1 and client.tasks(id).tasks[0].state == "waiting"
        )
        (tmp_path / "late").write_text("here\n")
        wait_until(lambda: client.job(id).state == "succeeded", "the second try")
        assert b"".join(client.logs(id)) == b"here\n"


def test_a_long_log_says_what_is_gone(shared: Cluster) -> None:
    shared.file("long.yaml", "command: seq 2000000\nlog_size: 1M\n")  # 14 MB
    assert shared.cress("submit", "long.yaml", "--wait").returncode == 0
    first, *lines = shared.cress("logs", newest(shared)).stdout.splitlines()
    assert first.startswith("[the first 13.")
    assert "M are gone: the log keeps its last 1." in first
    numbers = [int(line) for line in lines[1:]]
    assert numbers == list(range(numbers[0], 2_000_001)), "nothing is lost of what is kept"
    assert 100_000 < len(numbers) < 200_000
