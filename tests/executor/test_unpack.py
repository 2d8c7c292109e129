"""Archives of strangers: nothing lands outside the folder, whatever the account may see of the folders above."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from cress.executor import unpack
from cress.executor.addresses import Failed

NOBODY = 65534


def tar_of(path: Path, members: Sequence[tuple[str, str, str]], compression: str = "") -> Path:
    """A tar with these members: kind, name, and the target of a link or the content of a file."""
    kinds = {"dir": tarfile.DIRTYPE, "file": tarfile.REGTYPE, "symlink": tarfile.SYMTYPE, "link": tarfile.LNKTYPE}
    with tarfile.open(path, f"w:{compression}") as tar:  # type: ignore[call-overload]
        for kind, name, text in members:
            info = tarfile.TarInfo(name)
            info.type = kinds.get(kind, tarfile.FIFOTYPE)
            info.mode = 0o755
            if kind in ("symlink", "link"):
                info.linkname = text
            info.size = len(text) if kind == "file" else 0
            tar.addfile(info, io.BytesIO(text.encode()) if kind == "file" else None)
    return path


LEADS_OUT = {
    "a name with dots": [("file", "../out", "x")],
    "dots in the middle": [("file", "a/../../out", "x")],
    "an absolute link": [("symlink", "l", "/etc")],
    "a link to the folder above": [("symlink", "l", "..")],
    "a file through a link": [("symlink", "l", "d"), ("file", "l/f", "x")],
    "a folder through a link": [("dir", "d", ""), ("symlink", "l", "d"), ("dir", "l/e", "")],
    "a chain of links": [("symlink", "s", "."), ("symlink", "t", "s/.."), ("file", "t/out", "x")],
    "a chain of links without a file": [("symlink", "s", "."), ("symlink", "t", "s/..")],
    "a chain in the other order": [("symlink", "t", "s/.."), ("symlink", "s", ".")],
    "links in a circle": [("symlink", "a", "b"), ("symlink", "b", "a")],
    "a second name of a file outside": [("link", "l", "../secret")],
    "a second name of an absolute file": [("link", "l", "/etc/passwd")],
    "a second name through a link": [
        ("dir", "d", ""),
        ("file", "d/f", "x"),
        ("symlink", "l", "d"),
        ("link", "g", "l/f"),
    ],
    "a second name of a link": [("symlink", "s", "f"), ("file", "f", "x"), ("link", "l", "s")],
    "a pipe": [("pipe", "p", "")],
}


@pytest.mark.parametrize("case", LEADS_OUT, ids=str)
def test_what_leads_out_is_refused_and_makes_nothing_outside(tmp_path: Path, case: str) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "in").mkdir()
    archive = tar_of(tmp_path / "it.tar", LEADS_OUT[case])
    with pytest.raises(Failed, match="leads out of it or is not a file"):
        unpack.unpack(archive, tmp_path / "in")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "it.tar", "secret"]


@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz"])
def test_a_tar_is_unpacked_with_links_inside_it(tmp_path: Path, compression: str) -> None:
    members = [
        ("file", "./a/b", "text"),
        ("symlink", "a/up", "../c"),
        ("dir", "c", ""),
        ("symlink", "to", "a/up/../a/b"),
        ("link", "second", "a/b"),
        ("file", "/top", "top"),
        ("file", "a/b", "text of now"),
    ]
    (tmp_path / "in").mkdir()
    unpack.unpack(tar_of(tmp_path / "it", members, compression), tmp_path / "in")
    inside = tmp_path / "in"
    assert (inside / "to").read_text() == (inside / "a/b").read_text() == "text of now"
    assert (inside / "second").read_text() == "text", "it is the file that had this name then"
    assert (inside / "top").read_text() == "top"
    assert stat.S_IMODE((inside / "a/b").stat().st_mode) == 0o755


def test_a_zip_is_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "it.zip", "w") as packed:
        packed.writestr("a/b", "text")
        packed.writestr("empty/", "")
    (tmp_path / "in").mkdir()
    unpack.unpack(tmp_path / "it.zip", tmp_path / "in")
    assert (tmp_path / "in/a/b").read_text() == "text"
    assert (tmp_path / "in/empty").is_dir()


# Run in a new program, so that it has only what it loads before it becomes another account.
_AS_OTHER = """
import os, sys
from pathlib import Path
from cress.executor import unpack
unpack.prepare()
os.chdir(sys.argv[1])
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
sys.path[:] = []
from cress.executor.addresses import Failed
for name in sys.argv[2:]:
    try:
        unpack.unpack(Path(name), Path("in"))
    except Failed as error:
        sys.exit(f"{name}: {error}")
"""


@pytest.fixture
def hidden_work(tmp_path: Path) -> Path:
    """A directory of another account, below a folder that it may not pass through."""
    if os.geteuid() != 0:
        pytest.skip("needs root: nothing was shown of an account that cannot see the folders above")
    (tmp_path / "closed").mkdir(mode=0o700)
    work = tmp_path / "closed/attempt/work"
    (work / "in").mkdir(parents=True)
    for path in (work.parent, work, work / "in"):
        os.chown(path, NOBODY, NOBODY)
    return work


def as_other(work: Path, *archives: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _AS_OTHER, str(work), *archives], capture_output=True, text=True, check=False
    )


def test_a_chain_of_links_leads_nowhere_for_an_account_that_cannot_see_the_folders_above(hidden_work: Path) -> None:
    tar_of(hidden_work / "it.tar", [("symlink", "s", "."), ("symlink", "t", "s/.."), ("file", "t/out", "x")])
    (hidden_work / "it.tar").chmod(0o644)
    assert "leads out of it" in as_other(hidden_work, "it.tar").stderr
    assert not (hidden_work / "out").exists()


def test_every_archive_can_be_read_by_an_account_that_cannot_read_the_library_of_python(hidden_work: Path) -> None:
    files = [("file", "a", "text")]
    for compression in ("gz", "bz2", "xz"):
        tar_of(hidden_work / f"{compression}", files, compression).chmod(0o644)
    for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(hidden_work / f"zip{kind}", "w", kind) as packed:
            packed.writestr("ä", "text")
            packed.writestr("b", "text")
    archives = [path for path in hidden_work.iterdir() if path.is_file()]
    for path in archives:
        path.chmod(0o644)
    assert as_other(hidden_work, *(path.name for path in archives)).stderr == ""
