"""Paths of data: which are told of those that match patterns, and that the center hears when they change."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor.datasets import MOST_PATHS, Datasets, found
from tests.executor.centers import AgentProcess, Center, center, clean_up
from tests.executor.harness import PATIENCE


@pytest.fixture
def above() -> Iterator[Center]:
    """The center."""
    with center() as it:
        yield it


def test_what_matches_and_is_there_sorted_and_each_once(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / "sets" / name).mkdir(parents=True)
    (tmp_path / "sets" / "file.csv").write_text("")
    sets = tmp_path / "sets"
    patterns = (f"{sets}/*", f"{sets}/a", f"{sets}/nobody", f"{sets}/[bc]")
    assert found(patterns) == ((f"{sets}/a", f"{sets}/b", f"{sets}/c", f"{sets}/file.csv"), False)
    assert found((str(tmp_path / "none" / "*"),)) == ((), False)


def test_too_many_are_cut_and_it_is_said(tmp_path: Path) -> None:
    for number in range(MOST_PATHS + 1):
        (tmp_path / f"{number:05}").touch()
    said: list[str] = []
    paths = asyncio.run(Datasets((f"{tmp_path}/*",), said.append).look())
    assert len(paths) == MOST_PATHS
    assert said == [
        "more than 1000 paths of data, of which only the first 1000 are used: configure their folder instead"
    ]


def test_a_file_system_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe stands in for it: the look ends when the pipe does, and is not begun twice meanwhile."""
    reading, writing = os.pipe()
    looks = 0

    def slow(_: object) -> tuple[tuple[str, ...], bool]:
        nonlocal looks
        looks += 1
        os.read(reading, 1)
        return ("/late",), False

    monkeypatch.setattr("cress.executor.datasets.found", slow)
    monkeypatch.setattr("cress.executor.datasets.PATIENCE", 0.05)

    async def check() -> None:
        datasets = Datasets((str(tmp_path),), print)
        assert (await datasets.look(), await datasets.look(), looks) == ((), (), 1)
        os.close(writing)
        while not await datasets.look():
            pass
        assert (datasets.known, looks) == (("/late",), 1)

    asyncio.run(check())
    os.close(reading)


def test_the_center_hears_of_data_at_the_beginning_and_when_it_changes(tmp_path: Path, above: Center) -> None:
    sets = tmp_path / "sets"
    (sets / "a").mkdir(parents=True)
    directory = tmp_path / "executor"
    agent = AgentProcess(directory, above.port, data=[f"{sets}/*"], data_look=0.1)
    try:
        session = above.session()
        assert session.hello.data == (f"{sets}/a",)
        (sets / "b").mkdir()
        assert session.data.get(timeout=PATIENCE) == (f"{sets}/a", f"{sets}/b")
        (sets / "a").rmdir()
        assert session.data.get(timeout=PATIENCE) == (f"{sets}/b",)
    finally:
        agent.close()
        clean_up(directory)
