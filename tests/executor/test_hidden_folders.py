"""The folders of this machine that containers must not see."""

import errno
import os
from pathlib import Path

import pytest

from cress.executor import hidden_folders


def test_the_outermost_noted_folders_are_hidden_also_while_another_program_removes_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(hidden_folders, "HOMES", notes)
    for name in ("data", "data/executors", "data-2", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    for number, name in enumerate(("data/executors", "data", "data-2", "link", "gone")):
        (notes / str(number)).write_bytes(bytes(tmp_path / name))
    # A note that is listed, and is gone when it is read.
    for name in ("00", "zz"):
        (notes / name).symlink_to("nothing")
    home = tmp_path / "center/executors/node"
    home.mkdir(parents=True)
    (tmp_path / "center/cress.db").touch()
    found = hidden_folders.hidden_folders(home, [f"{tmp_path}/data/../elsewhere"])
    own = [folder for folder in found if Path(folder).is_relative_to(tmp_path)]
    assert own == [str(tmp_path / name) for name in ("center", "data", "data-2", "elsewhere")]


@pytest.mark.parametrize("call", ["open", "listdir"])
def test_folders_that_cannot_be_looked_at_are_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Without free descriptors, every folder was shown to containers."""

    def without_descriptors(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(hidden_folders, "HOMES", tmp_path)
    monkeypatch.setattr(os, call, without_descriptors)
    with pytest.raises(OSError, match="Too many open files"):
        hidden_folders.hidden_folders(tmp_path / "home")
