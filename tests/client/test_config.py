"""Where the client looks for the center."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.client.config import Address, NoCenter, data_directory, find_center
from cress.model.errors import InputError


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CRESS_URL", "CRESS_TOKEN", "CRESS_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def center(folder: Path, token: str = "secret", content: str = '{"url": "http://127.0.0.1:7411/", "pid": 1}') -> Path:
    folder.mkdir(parents=True)
    (folder / "center.json").write_text(content)
    (folder / "token").write_text(token + "\n")
    (folder / "token").chmod(0o600)
    return folder


def test_the_environment_names_a_center_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    center(tmp_path / "home/.local/share/cress")
    monkeypatch.setenv("CRESS_URL", "https://center.example:7411/")
    monkeypatch.setenv("CRESS_TOKEN", "other\n")
    assert find_center() == Address("https://center.example:7411", "other")


def test_a_data_directory_that_is_asked_for_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = center(tmp_path / "data")
    monkeypatch.setenv("CRESS_URL", "https://center.example")
    monkeypatch.setenv("CRESS_TOKEN", "other")
    assert find_center(folder) == Address("http://127.0.0.1:7411", "secret", folder)


def test_the_unix_socket_of_a_center_is_in_its_data_directory(tmp_path: Path) -> None:
    place = '{"url": "http://127.0.0.1:7411/", "pid": 1, "socket": "%s"}'
    for name, socket in (("api.sock", "api.sock"), ("/tmp/elsewhere/x.sock", "x.sock"), ("../../x.sock", "x.sock")):
        folder = center(tmp_path / str(len(name)), content=place % name)
        assert find_center(folder).socket == folder / socket


def test_data_directories_in_their_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert data_directory() == tmp_path / "home/.local/share/cress"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert data_directory() == tmp_path / "home/.local/share/cress"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert data_directory() == tmp_path / "xdg/cress"
    monkeypatch.setenv("CRESS_DATA", "~/mine")
    assert data_directory() == tmp_path / "home/mine"
    assert data_directory(Path("/given")) == Path("/given")


@pytest.mark.parametrize("file", [False, True], ids=["no_folder", "a_file_in_its_place"])
def test_no_center_there(tmp_path: Path, file: bool) -> None:
    folder = tmp_path / "data"
    if file:
        folder.touch()
    with pytest.raises(NoCenter) as caught:
        find_center(folder)
    assert str(caught.value) == f"no center runs on {folder} (start one with `cress up --data {folder}`)"


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"url": 3}', '{"url": "ftp://x"}', '{"url": "http://:80"}'])
def test_a_file_that_does_not_say_where(tmp_path: Path, content: str) -> None:
    with pytest.raises(InputError) as caught:
        find_center(center(tmp_path / "data", content=content))
    assert str(tmp_path / "data/center.json") in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_token_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = center(tmp_path / "data")
    (folder / "token").chmod(mode)
    with pytest.raises(InputError, match="other users may read or change the token"):
        find_center(folder)


@pytest.mark.parametrize(
    ("token", "what"),
    [("", "there is no token in"), ("two words", "is not a token"), ("\N{SNOWMAN}", "is not a token")],
)
def test_a_file_without_a_token(tmp_path: Path, token: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        find_center(center(tmp_path / "data", token=token))


@pytest.mark.parametrize(
    ("url", "token", "field"),
    [("127.0.0.1:7411", "x", "CRESS_URL"), ("http://a:port", "x", "CRESS_URL"), ("http://a", "a b", "CRESS_TOKEN")],
)
def test_a_mistake_in_the_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, url: str, token: str, field: str
) -> None:
    monkeypatch.setenv("CRESS_URL", url)
    monkeypatch.setenv("CRESS_TOKEN", token)
    with pytest.raises(InputError) as caught:
        find_center()
    assert caught.value.field == field
