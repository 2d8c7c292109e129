"""The program of the benchmarks: a part that fails does not take the others along."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.result import Result


def _good() -> Iterator[Result]:
    yield Result("something", 1.0, "s")


def _bad() -> Iterator[Result]:
    yield Result("begun", 2.0, "s")
    raise RuntimeError("no disk")


def test_a_part_that_fails_is_named_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "PARTS", {"bad": _bad, "good": _good})
    monkeypatch.setattr(program, "TARGET", tmp_path / "build" / "bench.json")
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    with pytest.raises(SystemExit, match="not measured completely, because of an error: bad"):
        program.main()
    measured = json.loads((tmp_path / "build" / "bench.json").read_text())["results"]
    assert [result["name"] for result in measured] == ["begun", "something"]
    assert "RuntimeError: no disk" in capsys.readouterr().err
