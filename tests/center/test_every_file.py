"""Every file of a data directory, damaged in every way: `cress store check` names it, or the damage is harmless.

What is harmless is listed with its reason, and `tests/center/test_damage.py` shows for the store's files that nothing
is lost by it.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cress.center.access.audit import AuditMark
from cress.center.keeping.anchors import Anchors
from cress.center.keeping.audit_check import check_audit
from cress.center.keeping.data_directory import DataDirectory
from cress.center.keeping.owner_token import ensure_token, fingerprint_of
from cress.center.keeping.store_maintenance import check
from cress.center.tls.authority import Authority
from cress.executor.account_rules import write_rules
from cress.executor.folder_check import check_folder
from cress.executor.journal import JournalFile
from cress.executor.runtimes.accounts import AccountRules
from cress.model.errors import InputError
from cress.protocol.access_views import AuditEntry
from cress.shell.executor.records import Boot, Epoch
from cress.store.base import StoreError
from tests.center.inside import Inside

ENTRIES = 34


async def _life(data: Path, copy: Path) -> None:
    DataDirectory(data).close()
    token = ensure_token(data)
    authority = Authority.create(data / "tls")
    authority.issue_center(["127.0.0.1"])
    for node in ("n1", "n2"):
        authority.issue_node(node, data.parent / node)
    authority.revoke("n2")
    center = Inside(data)
    center.committer._secret = fingerprint_of(token)
    async with center:
        anchors = Anchors(center.committer)
        anchors.audit._full = 1500
        for number in range(1, ENTRIES + 1):
            anchors.audit.write(AuditEntry(at=float(number), user="ann", what=f"PUT /v1/config {number}"))
        await anchors.keep(last=True)
        await center.join("n1")
        job = await center.submit()
        await center.started(job)
        await center.end(job)
        await center.mover.work()
        await center.submit()
        (data / "quarantine").mkdir()
        (data / "quarantine" / "x.json").write_text("{}")
        (data / "center.json").write_text("{}")
        (data / ".center.json.new").write_text("{}")
        _executor(data / "executors" / "n1")
        shutil.copytree(data, copy)


def _executor(folder: Path) -> None:
    """What an executor leaves in its directory."""
    folder.mkdir(parents=True)
    journal = JournalFile(folder / "journal")
    for number in range(1, 20):
        journal.write([Boot(f"boot-{number}"), Epoch(number)])
    journal.close()
    write_rules(folder, AccountRules(users={"ann": "anna", "bob": "robert"}, root_groups=("ops",)))
    for name in ("agent.lock", "supervisor.lock", "supervisor.log", "versions.json"):
        (folder / name).write_text("1234567890\n")


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory that a killed center leaves, with all kinds of files."""
    folder = tmp_path_factory.mktemp("left")
    asyncio.run(_life(folder / "a", folder / "killed"))
    return folder / "killed"


def told(data: Path) -> list[str]:
    """What `cress store check` says on standard error."""
    try:
        found = check(data / "cress.db")
    except (StoreError, InputError) as error:
        return [str(error)]
    more = [problem for folder in (data / "executors").glob("*") for problem in check_folder(folder)]
    return [*found.problems, *found.files, *more, *filter(None, (found.secret, found.loss))]


# --- harms ------------------------------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def flip_early(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 10] ^= 0x01
    path.write_bytes(data)


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMS: tuple[Callable[[Path], None], ...] = (flip, flip_early, cut, empty, remove, folder)
CONTENT = "flip flip_early cut empty remove"
# Files, damages of them that nothing names, and the reason why these are harmless.
HARMLESS: list[tuple[str, str, str]] = [
    (r"center\.lock", CONTENT, "only locked, never read"),
    (r"center\.json|\.center\.json\.new", CONTENT, "written at each start"),
    (r"cress\.db", "flip flip_early", "the write-ahead file has a newer copy of the page"),
    (r"cress\.db-wal", CONTENT, "completed from the commit journal"),
    (r"cress\.db-shm", CONTENT, "an index that SQLite makes again"),
    (r"cress\.db\.commits", CONTENT, "the second copy of changes, begun again at the next start"),
    (r"cress\.db\.mark", CONTENT, "beside an existing store it says nothing new"),
    (r"history\.db-(wal|shm)", CONTENT, "each addition is in the main file before it counts"),
    (r"history\.mark", CONTENT, "written again by the next addition, while the history itself is there"),
    (r"events/.*", "cut", "the store has the last records too, and writes them again"),
    (r"quarantine/.*", CONTENT + " folder", "notes for people, never read"),
    (r"executors/n1/(agent|supervisor)\.lock", CONTENT, "locked, and written at each start"),
    (r"executors/n1/supervisor\.log", CONTENT, "a log for people"),
    (r"executors/n1/versions\.json", CONTENT, "a cache: programs are asked again"),
    (r"tls/ca\.key", "remove", "operators may keep it elsewhere"),
]


def names(data: Path) -> list[str]:
    return sorted(str(path.relative_to(data)) for path in data.rglob("*") if path.is_file())


def test_each_damaged_file_is_named_or_harmless(left: Path, tmp_path: Path) -> None:
    assert told(left) == []
    silent: list[str] = []
    used: set[str] = set()
    files = names(left)
    assert {"tls/revoked.json", "tls/nodes/n1.pem", "audit/audit.jsonl", "history.db"} <= {*files}
    assert sum(name.startswith("audit/") for name in files) >= 3
    for name in files:
        for harm in HARMS:
            data = tmp_path / "data"
            shutil.copytree(left, data)
            if not (data / name).stat().st_size and harm not in (remove, folder):
                shutil.rmtree(data)
                continue
            harm(data / name)
            found = told(data)
            reason = next((why for where, how, why in HARMLESS if re.fullmatch(where, name) and harm.__name__ in how.split()), "")
            # The name of the folder, or of a file beside it, is in the message as well.
            if any(Path(name).name in sentence for sentence in found):
                used.add(reason)
            elif not reason:
                silent.append(f"{harm.__name__} {name}: {found}")
            shutil.rmtree(data)
    assert silent == [], "\n".join(silent)
