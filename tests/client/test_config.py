"""Where the client looks for the center."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from cress.client.config import Address, NoCenter, _device, choose_cluster, data_directory, find_center, missing
from cress.model.errors import InputError


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CRESS_URL", "CRESS_TOKEN", "CRESS_DATA", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
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


def test_a_center_that_starts_is_not_called_missing(tmp_path: Path) -> None:
    with (tmp_path / "center.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(NoCenter, match="is starting or stopping"):
            find_center(tmp_path)
    with pytest.raises(NoCenter, match="no center runs on"):
        find_center(tmp_path)


def test_a_lock_on_another_device_is_no_center_that_starts(tmp_path: Path) -> None:
    lock = tmp_path / "center.lock"
    lock.touch()
    line = f"1: FLOCK  ADVISORY  WRITE 7 DEVICE:{lock.stat().st_ino} 0 EOF\n"
    read = Path.read_text
    with lock.open() as file:
        own = _device(file.fileno())
    for device, starts in ((own, True), ("7f:7f", False)):

        def locks(path: Path, *words: Any, device: str = device, **named: Any) -> str:
            return line.replace("DEVICE", device) if path == Path("/proc/locks") else read(path, *words, **named)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Path, "read_text", locks)
            assert ("is starting" in missing(tmp_path, chosen=True)) == starts


def test_a_task_without_a_token_is_told_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRESS_ATTEMPT", "7")
    with pytest.raises(NoCenter, match=r"this task has no access to the center .*job_token: true"):
        find_center()
    with pytest.raises(NoCenter, match="no center runs on"):
        find_center(tmp_path)


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


def config_file(folder: Path, text: str) -> Path:
    path = folder / "home/.config/cress/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def _two_clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CONFIG_HOME", "CRESS_SOCKET", "CRESS_CLUSTER", "CRESS_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("cress.client.config._chosen", [])
    center(tmp_path / "test")
    path = config_file(
        tmp_path,
        'default = "prod"\n[clusters.prod]\nurl = "http://127.0.0.1:1,http://127.0.0.1:2"\ntoken-file = '
        '"prod.token"\nca = "ca.pem"\n'
        f'[clusters.test]\ndata = "{tmp_path}/test"\n',
    )
    (path.parent / "prod.token").write_text("of-prod\n")
    (path.parent / "prod.token").chmod(0o600)


@pytest.mark.usefixtures("_two_clusters")
def test_clusters_of_the_file_in_their_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "home/.config/cress"
    prod = Address("http://127.0.0.1:2", "of-prod", ca=folder / "ca.pem")
    test = Address("http://127.0.0.1:7411", "secret", tmp_path / "test")
    assert find_center() == prod
    monkeypatch.setenv("CRESS_CLUSTER", "test")
    assert find_center() == test
    monkeypatch.setenv("CRESS_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("CRESS_TOKEN", "of-another")
    assert find_center().url == "http://127.0.0.1:9"
    choose_cluster("prod")
    assert find_center() == prod
    assert find_center(tmp_path / "test") == test


@pytest.mark.usefixtures("_two_clusters")
def test_a_token_of_the_environment_is_not_sent_to_a_cluster_of_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config_file(tmp_path, '[clusters.prod]\nurl = "https://c:1"\n')
    monkeypatch.setenv("CRESS_TOKEN", "of-another")
    choose_cluster("prod")
    with pytest.raises(
        InputError, match=r"clusters.prod: has no token-file, and you are not signed in there \(`cress login"
    ):
        find_center()


@pytest.mark.usefixtures("_two_clusters")
def test_a_cluster_that_is_not_there_is_told_with_those_that_are() -> None:
    choose_cluster("prd")
    with pytest.raises(InputError, match=r"-C: .*config.toml has no cluster 'prd' \(did you mean prod"):
        find_center()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("defalt = 'a'", "{file}:1: defalt: is not a key (did you mean default?)"),
        ("default = 'a'", "{file}:1: default: there is no cluster 'a' (a table [clusters.a] with url = …)"),
        ("clusters = 3", "{file}:1: clusters: is a number (a table [clusters.NAME] for each)"),
        ("[clusters]\na = 'x'", "{file}:2: clusters.a: is a text (a table [clusters.a] with url = …)"),
        ("[clusters.a]\nurl = 3", "{file}:2: clusters.a.url: is a number (a text)"),
        ("[clusters.a]\n\ntoken_file = 'x'", "{file}:3: clusters.a.token_file: is not a key (did you mean token-file?)"),  # noqa: E501
        ("[clusters.a]\nca = 'x'", "{file}:1: clusters.a: has no place (one of url, socket, data)"),
        ("[clusters.a]\nurl = 'x'\ndata = 'y'", "{file}:1: clusters.a: url and data are given (one of url, socket, data)"),  # noqa: E501
        ("= 3", "{file}:1: is not valid TOML: "),
    ],
)  # fmt: skip
def test_mistakes_in_the_file_say_where(text: str, sentence: str, tmp_path: Path) -> None:
    file = config_file(tmp_path, text)
    with pytest.raises(InputError) as caught:
        find_center()
    assert str(caught.value).startswith(sentence.format(file=file))
