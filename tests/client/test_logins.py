"""Sign-ins on this machine: one for each center, the latest last."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.client.logins import Login, find_login, forget_login, keep_login, login_file
from cress.model.errors import InputError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def login(url: str, id: str) -> Login:
    return Login(url=url, token=f"token of {id}", id=id, user="ann", expires=1e9)


def test_a_center_has_one_sign_in_and_others_keep_theirs() -> None:
    assert find_login() is None
    first, other, again = login("https://a", "1"), login("https://b", "2"), login("https://a", "3")
    for each in (first, other, again):
        keep_login(each)
    assert (find_login("https://a"), find_login("https://b"), find_login("https://c")) == (again, other, None)
    forget_login(again)
    assert (find_login("https://a"), find_login()) == (None, other), "the one before was replaced"


def test_the_latest_sign_in_is_found_without_an_address() -> None:
    first, other = login("https://a", "1"), login("https://b", "2")
    for each in (first, other, first):
        keep_login(each)
    assert find_login() == first


def test_a_file_that_others_may_read_is_refused() -> None:
    keep_login(login("https://a", "1"))
    assert login_file().stat().st_mode & 0o077 == 0
    login_file().chmod(0o640)
    with pytest.raises(InputError, match="other users may read or change"):
        find_login()
