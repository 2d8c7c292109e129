"""Files from where the submitter stands: found, read and named by their content, without a center."""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cress.client.ignored import IgnoreRules
from cress.client.inputs import Inputs
from cress.model.errors import InputError, InputErrors


def upload(data: bytes) -> str:
    return f"upload:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    (folder / "data").mkdir(parents=True)
    (folder / "input.csv").write_bytes(b"1,2\n")
    (folder / "data/x").write_bytes(b"x")
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o700)
    (tmp_path / "above").write_bytes(b"above")
    return folder


CSV, RUN, ABOVE = upload(b"1,2\n"), upload(b"#!/bin/sh\n"), upload(b"above")
# By case: what a job says, and what the center gets.
FORMS: dict[str, tuple[Any, Any]] = {
    "one file": ("input.csv", [{"source": CSV, "path": "input.csv"}]),
    "a list": (["./input.csv"], [{"source": CSV, "path": "input.csv"}]),
    "from above": (["../above"], [{"source": ABOVE, "path": "above"}]),
    "by path": ({"a/b": "input.csv"}, [{"path": "a/b", "source": CSV}]),
    "into a folder": ([{"source": "input.csv", "path": "a/"}], [{"path": "a/input.csv", "source": CSV}]),
    "a program": (["run.sh"], [{"source": RUN, "path": "run.sh", "mode": "755"}]),
    "a mode of its own": (
        [{"source": "run.sh", "mode": 644}],
        [{"mode": 644, "source": RUN, "path": "run.sh"}],
    ),
    "addresses": (["https://x/y", {"source": "/node/x", "path": "x"}, {"path": "t", "text": "words"}], None),
    "by address": ({"x": "s3://b/x"}, None),
    "an upload": ([{"source": CSV, "path": "x"}], None),
}


@pytest.mark.parametrize("case", FORMS)
def test_paths_become_uploads_and_addresses_stay(base: Path, case: str) -> None:
    given, made = FORMS[case]
    with Inputs() as inputs:
        expected = given if made is None else made
        found = inputs.of_job({"Files": given}, base)
        assert found == {"Files": expected}
        in_steps = inputs.of_job({"steps": {"a": {"files": given}}}, base)
        assert in_steps == {"steps": {"a": {"files": found["Files"]}}}


# By case: the keys of a job, the message, and the field.
MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing": ({"files": ["input.csv", "no.csv"]}, "no.csv does not exist here", "jobs[0].files[1]"),
    "missing, by path": ({"files": {"x": "no.csv"}}, "no.csv does not exist here", "jobs[0].files.x.source"),
    "no folder": ({"workdir": "input.csv"}, "input.csv is not a folder", "jobs[0].workdir"),
    "a variable": ({"files": ["in-$CRESS_TASK_INDEX"]}, "have no variables in their path", "jobs[0].files[0]"),
    "a pipe": ({"files": ["pipe"]}, "pipe is neither a file nor a folder", "jobs[0].files[0]"),
    "a pipe in a folder": ({"workdir": "."}, "pipe is neither a file, a folder nor a link", "jobs[0].workdir"),
    "a name that is too long": ({"files": ["x" * 300]}, "cannot be read: File name too long", "jobs[0].files[0]"),
    "no path": ({"files": ["../a\0b"]}, "'../a\\x00b' is not a path", "jobs[0].files[0]"),
    "no archive": ({"image": "oci-archive:no.tar"}, "no.tar does not exist here", "jobs[0].image"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_say_what_and_where(base: Path, case: str) -> None:
    keys, what, field = MISTAKES[case]
    os.mkfifo(base / "pipe")
    with Inputs() as inputs:
        inputs.of_job(keys, base, "jobs[0].")
        with pytest.raises(InputError) as caught:
            inputs.check()
    assert what in caught.value.what
    assert caught.value.field == field


def test_all_mistakes_are_found_at_once(base: Path) -> None:
    with Inputs() as inputs:
        jobs: list[dict[str, Any]] = [{"files": ["no.csv", "input.csv", "a$b"]}, {"workdir": "gone"}]
        for place, keys in enumerate(jobs):
            inputs.of_job(keys, base, f"jobs[{place}].")
        with pytest.raises(InputErrors) as caught:
            inputs.check()
    assert [error.field for error in caught.value.errors] == ["jobs[0].files[0]", "jobs[0].files[2]", "jobs[1].workdir"]


def test_a_file_that_changes_while_it_is_read_is_refused(base: Path) -> None:
    with Inputs() as inputs:
        inputs.of_job({"files": ["input.csv"]}, base)
        (found,) = inputs.found.values()
        assert found.part(2, 10) == b"2\n"
        (base / "input.csv").write_bytes(b"1,3\n")
        with pytest.raises(InputError, match=r"input\.csv: it was changed while it was read"):
            found.part(0, 10)


def test_a_folder_is_its_contents_alone(base: Path) -> None:
    (base / ".git").mkdir()
    (base / ".git/config").write_text("x")
    (base / ".gitignore").write_text("*.log\n/data\n!data/x\n# a comment\n\n")
    (base / "a.log").write_text("x")
    (base / "link").symlink_to("input.csv")
    os.link(base / "input.csv", base / "second")
    with Inputs() as inputs:
        first = inputs.of_job({"workdir": "."}, base)
        (found,) = inputs.found.values()
        with tarfile.open(found.path) as tar:
            assert tar.getnames() == [".gitignore", "input.csv", "link", "run.sh", "second"]
            assert {member.uid for member in tar} == {0}
            assert tar.getmember("second").isreg()
    os.utime(base, (1, 1))
    (base / "a.log").write_text("another")
    with Inputs() as inputs:
        assert inputs.of_job({"workdir": "."}, base) == first
    # Of a folder in files, all is brought unless it says otherwise itself.
    with Inputs() as inputs:
        made: Any = inputs.of_job({"files": ["."]}, base)
        assert (made["files"][0]["path"], made["files"][0]["unpack"]) == ("here", True)
        (found,) = inputs.found.values()
        with tarfile.open(found.path) as tar:
            assert {"a.log", "data/x"} <= {*tar.getnames()}


# By pattern: paths that it leaves out, and paths that it does not. Folders end with /.
PATTERNS = {
    "*.o": (["a.o", "d/a.o"], ["a.o.c", "a"]),
    "/a": (["a", "a/"], ["d/a"]),
    "build/": (["build/", "d/build/"], ["build", "builder/"]),
    "d/*.x": (["d/a.x"], ["a.x", "e/d/a.x", "d/e/a.x"]),
    "**/t": (["t", "a/t", "a/b/t"], ["at"]),
    "a/**": (["a/b", "a/b/c"], ["a/", "b"]),
    "a?[0-9]": (["ab1"], ["ab", "a/1"]),
    "[!a]x": (["bx"], ["ax"]),
    r"\#x": (["#x"], ["x"]),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_are_those_of_gitignore(pattern: str) -> None:
    out, left = PATTERNS[pattern]
    rules = IgnoreRules([pattern])
    found = [path for path in (*out, *left) if rules.leaves_out(path.rstrip("/"), is_folder=path.endswith("/"))]
    assert found == out
    assert not IgnoreRules([pattern, f"!{pattern}"]).leaves_out(out[0].rstrip("/"), is_folder=out[0].endswith("/"))
