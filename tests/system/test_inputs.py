"""Files that a job brings from where its submitter stands, and files that come back, with real programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.client import Refused, calls
from cress.protocol.queries import FilesQuery
from tests.system.cluster import Cluster


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of a project, with a job file that reads its own files."""
    project = tmp_path / "project"
    (project / "data/deep").mkdir(parents=True)
    (project / "input.csv").write_text("1,2\n")
    (project / "data/deep/x.txt").write_text("deep\n")
    tool = project / "tool.sh"
    tool.write_text("#!/bin/sh\ncat input.csv data/deep/x.txt config.ini other/copy.csv\n")
    tool.chmod(0o750)
    return project


JOB = """
name: bring
command: ./tool.sh && mkdir -p out/a && echo result > out/a/r.txt && ln -s a/r.txt out/link && ln -s /etc/passwd bad
tasks: 2
files:
  - input.csv
  - tool.sh
  - data
  - {source: input.csv, path: other/copy.csv}
  - path: config.ini
    text: |
      colour = blue
"""


def test_files_from_where_one_stands_go_and_come_back(shared: Cluster, place: Path, tmp_path: Path) -> None:
    (place / "job.yaml").write_text(JOB)
    done = shared.cress("submit", place / "job.yaml", "--wait")
    assert (done.returncode, done.stderr) == (0, ""), done
    with shared.client() as client:
        id = client.jobs(limit=1).jobs[0].id
        said = b"".join(client.logs(id, 1))
        assert said == b"1,2\ndeep\ncolour = blue\n1,2\n"
    back = shared.cress("fetch", id, "--to", tmp_path / "back")
    assert back.returncode == 0, back
    found = {str(path.relative_to(tmp_path / "back")) for path in (tmp_path / "back").rglob("*") if not path.is_dir()}
    # What was brought and did not change stays there, and so does a link that leads out.
    assert found == {f"{task}/out/{name}" for task in (0, 1) for name in ("a/r.txt", "link")}
    assert (tmp_path / "back/1/out/link").readlink() == Path("a/r.txt")
    assert "bad is left out: it is a link that leads out, to /etc/passwd" in back.stderr
    one = shared.cress("fetch", f"{id}.1", "out/**/r.txt", "data", "--to", tmp_path / "one")
    assert "2 files (12 bytes)" in one.stdout, one
    assert (tmp_path / "one/data/deep/x.txt").read_text() == "deep\n"


def test_mistakes_are_told_with_file_line_and_field(shared: Cluster, place: Path) -> None:
    (place / "job.yaml").write_text(
        "name: x\ncommand: 'true'\nfiles:\n  - input.csv\n  - source: no.csv\n    path: x\n"
    )
    for verb in ("submit", "validate"):
        done = shared.cress(verb, place / "job.yaml")
        assert done.returncode == {"submit": 2, "validate": 1}[verb]
        assert f"{place}/job.yaml:5: files[1].source: no.csv does not exist here" in done.stderr, done.stderr
    with shared.client() as client:
        with pytest.raises(Refused) as caught:
            client.submit([{"command": "true", "files": ["input.csv"]}])
        assert "POST /v1/uploads/SHA256" in str(caught.value)
        assert [fault.field for fault in caught.value.faults] == ["jobs[0].files[0].source"]


def test_commands_and_scripts_bring_files_too(shared: Cluster, place: Path, tmp_path: Path) -> None:
    # Where one stands is the folder of the cluster here.
    (shared.folder / "stands.txt").write_text("stands here\n")
    given = ("--file", "stands.txt", "--file", f"sub/y={place}/input.csv")
    ran = shared.cress("run", *given, "--", "cat", "stands.txt", "sub/y")
    assert (ran.returncode, ran.stdout) == (0, "stands here\n1,2\n"), ran
    assert "stands.no does not exist here" in shared.cress("run", "--file", "stands.no", "--", "true").stderr
    script = place / "script.sh"
    script.write_text("#!/bin/sh\n#CRESS --file=stands.txt --name=scripted\ncat stands.txt > copy\n")
    assert shared.cress("submit", "--wait", script).returncode == 0
    assert shared.cress("fetch", "scripted", "--to", tmp_path / "back").returncode == 0
    assert (tmp_path / "back/copy").read_text() == "stands here\n"
    ran = shared.cress("run", "--workdir", place, "--", "./tool.sh")
    assert "1,2\ndeep\n" in ran.stdout, ran


def test_a_directory_that_both_ends_see_is_used_itself(shared: Cluster, tmp_path: Path) -> None:
    both = tmp_path / "both"
    both.mkdir()
    (both / "other").write_text("of somebody else")
    with shared.client() as client:
        (made,) = client.submit([{"command": "echo out > made; sleep 0", "directory": str(both)}]).jobs
        assert shared.cress("watch", made.id).returncode == 0
        asked = shared.cress("fetch", made.id)
        assert asked.returncode == 3
        assert f"ran in {both} of node n1, which this machine sees too: its files are there" in asked.stderr
        # As if this machine did not see it.
        page = client.ask(calls.files(made.id, FilesQuery(path="made")))
        assert (page.directory, [file.path for file in page.files]) == (str(both), ["made"])
    got = shared.cress("fetch", made.id, "made", "--to", tmp_path / "got", "--json")
    assert got.returncode == 0, got
    assert (tmp_path / "got/made").read_text() == "out\n"
    assert sorted(path.name for path in both.iterdir()) == ["made", "other"]


def test_only_who_may_read_its_logs_may_fetch_the_files_of_a_job(shared: Cluster, place: Path) -> None:
    (place / "job.yaml").write_text("name: own\ncommand: echo x > y\nfiles: [input.csv]\n")
    assert shared.cress("submit", place / "job.yaml", "--wait").returncode == 0
    token = shared.cress("token", "create", "t-eve", "--user", "eve").stdout.split()[-1]
    done = shared.cress("fetch", "own", CRESS_TOKEN=token, CRESS_URL=shared.address("url"), CRESS_INSECURE="1")
    assert done.returncode == 3
    assert "eve may not change it or read its output" in done.stderr, done
    wrong = shared.cress("fetch", "own", "no/*.csv")
    assert wrong.returncode == 3, wrong
    assert "no does not exist there" in wrong.stderr
    nothing = shared.cress("fetch", "own", "*.pdf")
    assert (nothing.returncode, "has no file *.pdf" in nothing.stderr) == (2, True), nothing
    assert "has no attempt 5" in shared.cress("fetch", "own", "--attempt", "5").stderr
