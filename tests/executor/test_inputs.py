"""Uploads on a node: fetched once, verified, and with a reason if they do not come. Real requests to a small server."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cress.executor import inputs
from cress.executor.addresses import Failed
from cress.executor.inputs import open_inputs
from cress.model.start_material import CenterAccess

DATA = os.urandom(300_000)
DIGEST = hashlib.sha256(DATA).hexdigest()


class Center:
    """A server that gives an upload to those who have the token; ``answers`` come first, one for each request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: list[tuple[int, bytes]] = []

    def answer(self, handler: Any) -> None:
        self.asked.append(handler.path)
        status, content = 200, DATA[int(handler.path.rpartition("=")[2]) :]
        if self.answers:
            status, content = self.answers.pop(0)
        elif handler.headers["Authorization"] != "Bearer cress_job_1":
            status, content = 404, b'{"code": "unknown", "message": "ann has no upload here"}'
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


@contextmanager
def serving(center: Center) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            center.answer(self)

        def log_message(self, *given: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def center() -> Center:
    return Center()


@pytest.fixture
def access(center: Center, monkeypatch: pytest.MonkeyPatch) -> Iterator[CenterAccess]:
    monkeypatch.setattr(inputs, "BACKOFF", 0.001)
    with serving(center) as url:
        yield CenterAccess(urls=url, token="cress_job_1")


def content(found: dict[str, int]) -> bytes:
    with os.fdopen(found[DIGEST], "rb") as file:
        return file.read()


def test_attempts_that_start_together_fetch_a_file_once(tmp_path: Path, center: Center, access: CenterAccess) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: open_inputs([DIGEST, DIGEST], tmp_path, access), range(8)))
    assert {content(each) for each in found} == {DATA}
    assert len(center.asked) == 1
    assert [path.name for path in (tmp_path / "inputs").iterdir()] == [DIGEST]
    assert (tmp_path / "inputs").stat().st_mode & 0o777 == 0o700
    # It needs no center any more.
    assert content(open_inputs([DIGEST], tmp_path, None)) == DATA
    # What is in the place of the file, or of its first part, is none.
    for number, name in enumerate((DIGEST, f"{DIGEST}.part"), 2):
        (tmp_path / "inputs" / DIGEST).unlink()
        (tmp_path / "inputs" / name / "inside").mkdir(parents=True)
        assert content(open_inputs([DIGEST], tmp_path, access)) == DATA
        assert len(center.asked) == number
    (tmp_path / "inputs" / DIGEST).unlink()
    (tmp_path / "inputs" / DIGEST).symlink_to("/etc/passwd")
    assert content(open_inputs([DIGEST], tmp_path, access)) == DATA


def test_a_fetch_that_breaks_off_goes_on_and_what_is_wrong_is_fetched_again(
    tmp_path: Path, center: Center, access: CenterAccess
) -> None:
    center.answers = [(503, b"{}"), (200, DATA[:1000]), (200, b"x" * (len(DATA) - 1000))]
    assert content(open_inputs([DIGEST], tmp_path, access)) == DATA
    assert [path.rpartition("=")[2] for path in center.asked] == ["0", "0", "0", "0"]


# By case: what the server answers, and what the task is told.
REFUSALS: dict[str, tuple[list[tuple[int, bytes]], str, str]] = {
    "not ours": ([], "other", "ann has no upload here"),
    "busy": ([(503, b'{"message": "the center stops"}')] * 9, "cress_job_1", "the center stops (6 tries)"),
    "another file": ([(200, b"y" * len(DATA))] * 9, "cress_job_1", "another SHA-256 (6 tries)"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_file_that_does_not_come_is_told(tmp_path: Path, center: Center, access: CenterAccess, case: str) -> None:
    center.answers, token, why = REFUSALS[case]
    with pytest.raises(Failed) as caught:
        open_inputs([DIGEST], tmp_path, CenterAccess(urls=access.urls, token=token))
    assert why in str(caught.value)
    assert not (tmp_path / "inputs" / DIGEST).exists()


def test_another_center_is_asked_and_without_one_it_is_told(tmp_path: Path, access: CenterAccess) -> None:
    with pytest.raises(Failed, match="the center has sent no access to uploads"):
        open_inputs([DIGEST], tmp_path, None)
    several = CenterAccess(urls=f"http://127.0.0.1:1,{access.urls}", token=access.token)
    assert content(open_inputs([DIGEST], tmp_path, several)) == DATA


def test_a_part_that_another_attempt_renames_in_this_moment_is_no_failure(
    tmp_path: Path, access: CenterAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if it was there a moment ago.
    monkeypatch.setattr(os.path, "lexists", lambda _: True)
    assert content(open_inputs([DIGEST], tmp_path, access)) == DATA


def test_what_no_attempt_used_for_long_is_removed(tmp_path: Path, access: CenterAccess) -> None:
    folder = tmp_path / "inputs"
    folder.mkdir()
    (folder / "old").write_text("x")
    (folder / "stray/inside").mkdir(parents=True)
    for name in ("old", "stray"):
        os.utime(folder / name, (time.time() - inputs.KEPT - 9,) * 2)
    (folder / "new").write_text("x")
    assert content(open_inputs([DIGEST], tmp_path, access)) == DATA
    assert sorted(path.name for path in folder.iterdir()) == sorted([DIGEST, "new"])
