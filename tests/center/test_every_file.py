"""Every file of a data directory, damaged in every way: `cress store check` names it, or the damage is harmless.

What is harmless is listed with its reason, and `tests/center/test_damage.py` shows for the store's files that nothing
is lost by it.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from cress.center.committing.anchors import Anchors
from cress.center.committing.use_curves import _read as read_curves
from cress.center.files.group_file import read_groups
from cress.center.files.yaml_file import read_text
from cress.center.keeping.anchor_notes import tls_mark_of
from cress.center.keeping.audit import Audit, last_line
from cress.center.keeping.audit_check import check_audit
from cress.center.keeping.data_directory import DataDirectory
from cress.center.keeping.files_check import audit_mark
from cress.center.keeping.loss_proof import loss_in
from cress.center.keeping.notified_position import read_position
from cress.center.keeping.owner_token import ensure_token, fingerprint_of
from cress.center.keeping.owner_token import read_token as owner_token
from cress.center.keeping.store_maintenance import check
from cress.center.keeping.tls_check import _issued, check_tls
from cress.center.keeping.tls_mark import read_revoked
from cress.center.notifications.notifier import sender_settings
from cress.center.secrets.key_file import KeyFile
from cress.center.settings import CenterSettings
from cress.center.tls.authority import Authority
from cress.center.tls.certificates import read_certificate
from cress.center.tls.server import Files, center_tls
from cress.center.tls.server import _context as listening_context
from cress.client.config import read_token as client_token
from cress.client.tls import trusting
from cress.executor.account_rules import write_rules
from cress.executor.folder_check import check_folder
from cress.executor.journal import JournalFile
from cress.executor.runtimes.accounts import AccountRules
from cress.lifecycle.machine import Machine
from cress.model.errors import InputError
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.portal.server import _check as check_portal
from cress.portal.settings import PortalSettings
from cress.protocol.access_views import AuditEntry
from cress.protocol.regular_files import NotRegularError, read_regular
from cress.shell.center.past_use import PastUse
from cress.shell.center.witness import Lineage
from cress.shell.executor.records import Boot, Epoch
from cress.store.base import Saved, StoreError
from cress.store.tools import reading
from tests.center.inside import Inside
from tests.center.program import Center, eventually, run_to_end
from tests.forked import run_cress
from tests.waiting import PATIENCE

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
    # Not in the part of a page that nothing uses.
    place = next((place for place in range(len(data) // 2, len(data)) if data[place]), len(data) // 2)
    data[place] ^= 0x10
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


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


HARMS: tuple[Callable[[Path], None], ...] = (flip, flip_early, cut, empty, remove, folder, pipe)
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
    (r"history\.db", "flip_early", "bytes of a page that no row uses"),
    (r"history\.db-(wal|shm)", CONTENT, "each addition is in the main file before it counts"),
    (r"history\.mark", CONTENT, "written again by the next addition, while the history itself is there"),
    (r"events/.*", "cut", "the store has the last records too, and writes them again"),
    (r"quarantine/.*", CONTENT + " folder pipe", "notes for people, never read"),
    (r"executors/n1/(agent|supervisor)\.lock", CONTENT, "locked, and written at each start"),
    (r"executors/n1/supervisor\.log", CONTENT, "a log for people"),
    (r"executors/n1/versions\.json", CONTENT, "a cache: programs are asked again"),
    (r"tls/ca\.key", "remove", "operators may keep it elsewhere"),
]


def names(data: Path) -> list[str]:
    return sorted(str(path.relative_to(data)) for path in data.rglob("*") if path.is_file())


FILES = (
    ".center.json.new audit/audit-000001.jsonl audit/audit-000002.jsonl audit/audit.jsonl center.json center.lock "
    "cress.db cress.db-shm cress.db-wal cress.db.commits cress.db.mark events/00000001.events "
    "executors/n1/accounts.json executors/n1/agent.lock executors/n1/journal executors/n1/supervisor.lock "
    "executors/n1/supervisor.log executors/n1/versions.json history.db history.db-shm "
    "history.db-wal history.mark quarantine/x.json tls/ca.key "
    "tls/ca.pem tls/center.pem tls/nodes/n1.pem tls/nodes/n2.pem tls/revoked.json token"
).split()


def test_nothing_is_left_out(left: Path) -> None:
    assert told(left) == []
    assert [name for name in names(left) if name not in FILES] == []
    # Beside a center that ``cress up`` has started.
    for name in ("portal.json", "portal.port", ".portal.json.12"):
        (left / name).write_text("1")
    assert check(left / "cress.db").others == []
    (left / "notes.txt").touch()
    assert check(left / "cress.db").others == ["notes.txt"]
    (left / "notes.txt").unlink()


IN_THE_WAY = ("center.json", ".center.json.new", "center.lock", "api.sock", "executors.sock")


def test_a_folder_in_the_place_of_a_file_that_a_center_makes_is_named_and_can_be_moved_away(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Center(data, forked=True):
        pass
    for name in IN_THE_WAY:
        (data / name).unlink(missing_ok=True)
        (data / name).mkdir()
        assert any(f"{data / name} is a folder" in sentence for sentence in told(data)), name
        done = run_to_end(data)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert f"{data / name}: it is a directory (move it away, the center makes the file again)" in done.stderr
        (data / name).rename(tmp_path / f"moved-{name}")
    with Center(data, forked=True) as center:
        assert center.get("/v1/state")["problem"] == ""


def test_a_running_center_keeps_the_mark_of_its_audit_log_in_the_store(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Center(data, forked=True) as center:
        _refused(center)
        eventually(lambda: audit_mark(data, _saved(data), shared=False).number)
        assert told(data) == []
        _refused(center)
        assert center.stop() == 0
    assert audit_mark(data, _saved(data), shared=False).number == 2
    shutil.rmtree(data / "audit")
    assert "is gone, and with it 2 entries" in told(data)[0]


@contextmanager
def at_once() -> Iterator[None]:
    """Whatever waits for another program ends: nobody writes to a pipe in the place of a file."""

    def waits(*_: object) -> None:
        raise AssertionError("it waits for ever")

    before = signal.signal(signal.SIGALRM, waits)
    signal.alarm(int(PATIENCE))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_an_operators_file_that_is_a_pipe_or_a_socket_is_refused_at_once(tmp_path: Path) -> None:
    def no_jobs(*_: object) -> Any:
        raise AssertionError

    os.mkfifo(fifo := tmp_path / "fifo", 0o600)
    listening = tmp_path / "socket"
    with closing(socket.socket(socket.AF_UNIX)) as bound:
        bound.bind(str(listening))
    listening.chmod(0o600)
    readers: tuple[Callable[[Path], object], ...] = (
        owner_token,
        partial(read_text, what="a topology"),
        lambda path: read_groups(path, Machine(Dimensions(), Options()), Options(), Dimensions()),
        read_certificate,
        lambda path: sender_settings(replace(CenterSettings(data=tmp_path), notify_key=path)),
        lambda path: KeyFile(path, tmp_path / "data").read(),
        client_token,
        trusting,
        lambda path: listening_context(Files(path, path, path)),
        lambda path: check_portal(PortalSettings(folder=tmp_path, read_jobs=no_jobs, tls_cert=path, tls_key=path)),
    )
    # A shell that hands a pipe over (`<(command)`) has begun its writer.
    end, begin = os.pipe()
    os.write(begin, b"t" * 32 + b"\n")
    os.close(begin)
    with at_once():
        assert client_token(Path(f"/dev/fd/{end}")) == "t" * 32
    os.close(end)
    # A folder costs no descriptor.
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    for path, kind in ((fifo, "a named pipe"), (listening, "a socket")):
        for read in readers:
            with at_once(), pytest.raises(InputError, match=f"it is {kind}, not a file"):
                read(path)


def test_a_folder_that_is_a_link_is_walked_and_its_readers_do_not_wait(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    elsewhere.mkdir()
    for name in ("audit.jsonl", "use.curves", "rolled-back.json", "notified.position"):
        os.mkfifo(elsewhere / name)
    with at_once():
        for of_folder in (last_line, DataDirectory):
            with pytest.raises((NotRegularError, InputError), match="it is a named pipe"):
                of_folder(elsewhere)
        of_file: tuple[Callable[[Path], object], ...] = (read_revoked, partial(_issued, authority=None))
        for read in of_file:
            with pytest.raises(InputError, match="cannot be read"):
                read(elsewhere / "audit.jsonl")
        assert read_position(elsewhere, 7) == 7
        assert loss_in(elsewhere, Lineage(b"key", "c", ()), 1) is None
        assert read_curves(elsewhere / "use.curves").encoded() == PastUse().encoded()
    (data / "audit").symlink_to(elsewhere)
    with pytest.raises(InputError, match=r"audit\.jsonl: it is a named pipe"):
        DataDirectory(data)


def test_what_operators_have_beside_the_files_of_a_center_may_be_anything(tmp_path: Path) -> None:
    (tmp_path / "center.log").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "log.fifo")
    DataDirectory(tmp_path).close()


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named_or_the_damage_is_harmless(left: Path, tmp_path: Path, name: str) -> None:
    if not (left / name).exists():
        pytest.skip("SQLite has removed it")
    silent: list[str] = []
    for harm in HARMS:
        if not (left / name).stat().st_size and harm not in (remove, folder, pipe):
            continue
        data = tmp_path / harm.__name__
        shutil.copytree(left, data)
        harm(data / name)
        with at_once():
            found = told(data)
            if harm is pipe and not name.startswith(("executors/", "quarantine/")):
                with pytest.raises(InputError, match=rf"{re.escape(name)}: it is a named pipe"):
                    DataDirectory(data)
        known = any(re.fullmatch(where, name) and harm.__name__ in how.split() for where, how, _ in HARMLESS)
        if not known and not any(Path(name).name in sentence for sentence in found):
            silent.append(f"{harm.__name__}: {found}")
    assert silent == []


def _refused(center: Center) -> None:
    with center.client(Authorization="Bearer wrong") as stranger:
        assert stranger.get("/v1/state").status_code == 401


# --- the audit log ----------------------------------------------------------------------------------------------------


def _swap(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[4], lines[3], *lines[5:]]


def _forge(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[3].replace(b"ann", b"bob"), *lines[4:]]


LINES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "removed": (lambda lines: lines[:3] + lines[4:], "entries 4 to 4 are missing before line 4"),
    "doubled": (lambda lines: [*lines[:4], lines[3], *lines[4:]], "line 5 has entry 4 a second time"),
    "moved": (_swap, "entries 4 to 4 are missing before line 4"),
    "forged": (_forge, "line 4 .entry 4. is not as it was written"),
    "added": (lambda lines: [*lines[:3], b'{"at":1.0}', *lines[3:]], "line 4 has no number"),
}


@pytest.mark.parametrize("case", LINES)
def test_lines_of_the_audit_log_that_were_changed_are_noticed(left: Path, tmp_path: Path, case: str) -> None:
    change, says = LINES[case]
    shutil.copytree(left / "audit", tmp_path / "audit")
    path = tmp_path / "audit" / "audit-000001.jsonl"
    path.write_bytes(b"\n".join(change(path.read_bytes().splitlines())) + b"\n")
    mark = audit_mark(left, _saved(left), shared=False)
    (found,) = check_audit(tmp_path / "audit", mark)
    assert re.search(says, found), found
    # A file twice, and one that was renamed.
    shutil.copy(left / "audit" / "audit-000001.jsonl", path)
    shutil.copy(path, path.with_name("audit-000003.jsonl"))
    assert check_audit(tmp_path / "audit", mark)
    path.with_name("audit-000003.jsonl").unlink()
    assert check_audit(tmp_path / "audit", mark) == []


def test_whoever_writes_the_whole_audit_log_anew_does_not_know_the_digest_in_the_store(
    left: Path, tmp_path: Path
) -> None:
    mark = audit_mark(left, _saved(left), shared=False)
    audit = Audit(tmp_path)
    for number in range(1, ENTRIES + 1):
        audit.write(AuditEntry(at=float(number), user="nobody", what=f"PUT /v1/config {number}"))
    (found,) = check_audit(tmp_path / "audit", mark)
    assert f"entry {ENTRIES} is not the one that the store knows" in found


def test_a_lost_audit_log_goes_on_and_its_loss_can_be_accepted(left: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(left, data)
    (data / "audit" / "audit-000001.jsonl").unlink()
    (data / "audit" / "audit.jsonl").unlink()
    asyncio.run(_write_more(data, "while it is lost"))
    (first, second) = check(data / "cress.db").files
    assert "audit-000001.jsonl is gone" in first
    assert f"entries 31 to {ENTRIES} are missing before" in second
    done = run_cress(("store", "accept-loss", "--data", str(data)))
    assert (done.returncode, done.stderr, done.stdout.count("accepted: ")) == (0, "", 2)
    assert check(data / "cress.db").files == []
    asyncio.run(_write_more(data, "after it"))
    assert check(data / "cress.db").files == []
    cut(data / "audit" / "audit.jsonl")
    # Of the line that is cut, and of those after it.
    assert len(check(data / "cress.db").files) == 2
    shutil.rmtree(data / "audit")
    assert "is gone, and with it" in check(data / "cress.db").files[0]


def _saved(data: Path) -> Saved:
    with reading(data / "cress.db") as store:
        return store.saved()


async def _write_more(data: Path, what: str) -> None:
    DataDirectory(data).close()
    async with Inside(data) as center:
        anchors = Anchors(center.committer)
        for number in range(3):
            anchors.audit.write(AuditEntry(at=1.0, what=f"{what} {number}"))
        await anchors.keep(last=True)


# --- certificates -----------------------------------------------------------------------------------------------------


def test_a_revocation_outlives_its_file(left: Path, tmp_path: Path) -> None:
    mark = tls_mark_of(_saved(left).meta.get("tls"))
    shutil.copytree(left / "tls", tmp_path / "tls")
    (tmp_path / "tls" / "revoked.json").unlink()
    said: list[str] = []
    tls = center_tls(CenterSettings(data=tmp_path), said.append)
    present = [
        x509.load_pem_x509_certificate((tmp_path / "tls" / "nodes" / f"{node}.pem").read_bytes()).public_bytes(
            serialization.Encoding.DER
        )
        for node in ("n1", "n2")
    ]
    assert [tls.is_revoked(each) for each in present] == [False, False]
    tls.remember(mark.revoked)
    assert [tls.is_revoked(each) for each in present] == [False, True]
    assert "has lost the revocation of the certificates of n2" in said[0]
    # The way out.
    Authority(tmp_path / "tls").revoke("n2")
    assert check_tls(tmp_path / "tls", mark) == []
