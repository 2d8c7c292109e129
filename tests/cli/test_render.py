"""A file that follows the places of jobs, with a center that comes and goes."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
import typer

from cress.cli import render
from cress.cli.place_template import PlaceTemplate
from cress.cli.render import FileKeeper
from cress.client import NoCenter, PlaceView, Unauthorized
from cress.model.errors import InputError
from tests.waiting import wait_until

# The threads that ask end by an exception of the center below.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def place(address: str) -> PlaceView:
    return PlaceView(job=1, name="x", task=0, attempt=1, group="g", node="n", rack="r", address=address, ports={},
                     since=0.0)  # fmt: skip


def has_text(file: Path) -> bool:
    return file.exists() and bool(file.read_text())


class Center:
    """Answers from a list: addresses of the only place, "" for none; an error ends a connection, a file is awaited."""

    def __init__(self, *answers: str | Exception | Path) -> None:
        self.answers = list(answers)

    def connect(self, _data: Path | None) -> Center:
        if not self.answers:
            raise SystemExit  # ends the thread that asks
        if self.answers and isinstance(self.answers[0], NoCenter):
            raise self.answers.pop(0)  # type: ignore[misc]
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def watch_names(self, name: str, *, group: str = "") -> Iterator[Sequence[PlaceView]]:
        while self.answers and not isinstance(self.answers[0], NoCenter):
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, Path):
                wait_until(partial(has_text, answer))
            else:
                yield [place(answer)] if answer else []
                time.sleep(0.03)  # a change of its own


def run(
    monkeypatch: pytest.MonkeyPatch, file: Path, center: Center, command: str = "", *, restart: bool = False
) -> int:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    for name, value in {"connect": center.connect, "AGAIN": 0.05, "SETTLE": 0.0}.items():
        monkeypatch.setattr(render, name, value)
    threads = set(threading.enumerate())
    words = ["/bin/sh", "-c", command] if command else []
    try:
        return FileKeeper(PlaceTemplate("{{x}}\n", "t"), file, words, None, "", None).run(restart=restart)
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
        center.answers.clear()
        for thread in set(threading.enumerate()) - threads:
            thread.join()


def test_without_a_center_nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(NoCenter, match="not here"):
        run(monkeypatch, tmp_path / "out", Center(NoCenter("not here")))


def test_a_job_without_a_task_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path / "out", Center("", "", "a")) == 0
    assert capsys.readouterr().err.count("waiting for a task of x") == 1
    assert run(monkeypatch, tmp_path / "out", Center("b")) == 0
    assert capsys.readouterr().err == ""


def test_after_the_first_file_every_error_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out"
    center = Center("a", Unauthorized("no"), NoCenter("not here"), Unauthorized("no"), "b")
    follow = f"for _ in $(seq 6000); do grep -q b {file} && exit 7; sleep 0.01; done"
    assert run(monkeypatch, file, center, follow) == 7
    # A center that is away is no news, and another error is told once.
    assert capsys.readouterr().err.splitlines().count("cress render: no; the last file stays") == 1


def test_changes_that_come_together_are_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = FileKeeper(PlaceTemplate("{{x}}\n", "t"), Path("out"), [], None, "", None)
    waits: list[float] = []

    class Changes:
        """One change, and no further one."""

        def get(self, timeout: float | None = None) -> render.News:
            if timeout is None:
                return render.News("x")
            waits.append(timeout)
            raise queue.Empty

    monkeypatch.setattr(keeper, "_changes", Changes())
    monkeypatch.setattr(render, "SETTLE", 1000.0)
    for text, least, most in ((None, 0, 1), ("as it was", 500, 1000)):
        keeper._text = text
        assert keeper._next_changes() == [render.News("x")]
        assert least <= waits.pop() <= most


@pytest.mark.parametrize(("number", "foreground", "passed"), [(2, True, []), (2, False, [2]), (15, True, [15])])
def test_ctrl_c_reaches_the_command_once(
    monkeypatch: pytest.MonkeyPatch, number: int, passed: list[int], *, foreground: bool
) -> None:
    keeper = FileKeeper(PlaceTemplate("{{x}}\n", "t"), Path("out"), ["x"], None, "", None)
    sent: list[int] = []
    monkeypatch.setattr(keeper, "_process", SimpleNamespace(send_signal=sent.append))
    monkeypatch.setattr(render, "_is_in_foreground", lambda: foreground)
    keeper._pass_on(number)
    assert sent == passed


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": ["true"], "send": "HUP", "restart": True}, "--signal: is given beside --restart (one of them)"),
        ({"command": ["true"], "restart": True}, "{}: cannot be read: No such file or directory"),
        ({"send": "HUP"}, "--signal and --restart need a command (-- COMMAND ARGUMENTS)"),
        ({"restart": True}, "--signal and --restart need a command (-- COMMAND ARGUMENTS)"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, given: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        render.render(tmp_path / "t", tmp_path / "out", **given)
    assert (ended.value.exit_code, capsys.readouterr().err) == (2, f"cress render: {said.format(tmp_path / 't')}\n")


def test_a_signal_between_two_commands_ends_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file, log = tmp_path / "out", tmp_path / "log"
    command = f"""
trap 'kill -TERM $PPID; sleep 0.05; exit 0' TERM
cat {file} >>{log}
for _ in $(seq 6000); do sleep 0.01; done
"""
    center = Center("a", log, "b")
    assert run(monkeypatch, file, center, command, restart=True) == 128 + signal.SIGTERM
    assert log.read_text() == "a\n"


def test_a_file_has_the_mode_of_other_new_files_and_a_link_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, link = tmp_path / "out", tmp_path / "link"
    link.symlink_to("out")
    umask = os.umask(0o027)
    try:
        run(monkeypatch, link, Center("a"))
    finally:
        os.umask(umask)
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("a\n", 0o640)
    file.unlink()
    file.mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        run(monkeypatch, file, Center("a"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]
