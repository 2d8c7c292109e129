"""Files that a job brings from where its submitter stands, and files that come back, with real programs."""

from __future__ import annotations

from pathlib import Path

import pytest

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
