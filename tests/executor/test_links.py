"""Links and files that tasks put where the executor, which is root, reads and writes: nothing comes of them."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor import attempt_log, stage_failure
from cress.executor.log_cleanup import remove_old_output
from cress.model.job import JobType
from cress.model.reports import Cause
from cress.model.run import File
from cress.shell.executor.starting import StageFailure
from tests.executor.harness import Client, SupervisorProcess, shell, supervisor

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has tasks of other accounts: links were not tried")
SOMEBODY, NOBODY = 1, 65534  # daemon, nobody


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that every account may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def parent(home: Path) -> Iterator[SupervisorProcess]:
    with supervisor(home / "e") as process:
        yield process


@pytest.fixture
def client(parent: SupervisorProcess) -> Client:
    return parent.start()


def test_the_folder_of_an_attempt_is_its_accounts_and_nobody_elses(client: Client, home: Path) -> None:
    assert client.run(shell("echo out; touch new", user="nobody"), 5).code == 0
    folder = home / "e/attempts/5"
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (NOBODY, 0o700)
    assert {each.stat().st_uid for each in folder.rglob("*")} == {NOBODY}


@pytest.mark.parametrize("files", [(), (File(source="/etc/hostname", path="x"),)])
def test_a_folder_that_is_somebody_elses_already_is_not_used(
    client: Client, home: Path, files: tuple[File, ...]
) -> None:
    """Whoever has it may have put a link in the place of the log, which would be opened and given away as root."""
    precious = home / "precious"
    precious.write_text("kept")
    folder = home / "e/attempts/5"
    folder.mkdir()
    (folder / "stdout").symlink_to(precious)
    os.chown(folder, NOBODY, NOBODY)
    end = client.run(shell("echo out", user="nobody", files=files), 5)
    assert end.cause is Cause.NODE
    assert "belongs to another account" in end.error
    assert (precious.read_text(), precious.stat().st_uid) == ("kept", 0)


def test_a_log_is_a_file_of_the_owner_of_its_folder(home: Path) -> None:
    log = home / "stdout"
    log.write_text("x")
    os.close(attempt_log.open_log(str(log), os.O_RDONLY))
    os.chown(home, NOBODY, NOBODY)
    with pytest.raises(
        OSError, match="no longer a file of the task"
    ):  # moved there, from where its owner could not read it
        attempt_log.open_log(str(log), os.O_RDONLY)
    log.unlink()
    os.mkfifo(log)
    os.chown(log, NOBODY, NOBODY)
    with pytest.raises(OSError, match="no longer a file of the task"):
        attempt_log.open_log(str(log), os.O_RDONLY)
    log.unlink()
    log.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        attempt_log.open_log(str(log), os.O_RDONLY)


def test_a_directory_that_became_a_link_is_not_entered_for_outputs(client: Client, home: Path) -> None:
    """The stage goes there before it takes the account: into what the account could not reach by itself."""
    closed = home / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner/secret").write_text("secret")
    closed.chmod(0o700)
    run = shell(
        f"mv $CRESS_DIRECTORY/work $CRESS_DIRECTORY/aside; ln -s {closed}/inner $CRESS_DIRECTORY/work",
        user="nobody",
        files=(File(source="/etc/hostname", path="x"),),
        outputs=(File(path="secret", source=f"{home}/e/attempts/5/got"),),
    )
    end = client.run(run, 5)
    assert (end.cause, end.code) == (Cause.OUTPUTS, 0)
    assert "the directory of the attempt cannot be entered" in end.error
    assert not (home / "e/attempts/5/got").exists()


def test_a_root_folder_is_one_that_its_account_may_see(client: Client, home: Path) -> None:
    if not client.inventory.container:
        pytest.skip("no containers on this machine: root folders of tasks were not tried")
    closed = home / "closed"
    (closed / "inner/bin").mkdir(parents=True)
    for attempt, (root, mode) in enumerate(((closed / "inner", 0o700), (closed, 0o700), (closed, 0o711)), 1):
        closed.chmod(mode)
        end = client.run(shell("true", user="nobody", runtime="container", root=str(root)), attempt)
        assert end.cause is Cause.NOT_STARTED
        assert end.error.endswith(f"{root}: Permission denied"), end.error
    closed.chmod(0o755)
    end = client.run(shell("true", user="nobody", runtime="container", root=str(closed)), 9)
    assert end.error.startswith("/bin/sh cannot be started"), "it is seen, and has no shell"


def test_trouble_that_the_task_has_made_up_is_not_believed(home: Path) -> None:
    stage_failure.write(os.fsencode(home), StageFailure(Cause.NODE, "the disk is full"))
    assert stage_failure.read(os.fsencode(home)) == StageFailure(Cause.NODE, "the disk is full")
    os.chown(home / "trouble", NOBODY, NOBODY)
    assert stage_failure.read(os.fsencode(home)) is None


def test_a_database_of_a_name_that_another_account_had_gets_no_data_of_it(client: Client, home: Path) -> None:
    run = shell("echo mine > $CRESS_STATE/data", job=1, type=JobType.DATABASE, name="db", group="g", run_as="daemon")
    assert client.run(run, 5).code == 0
    place = home / "e/data/g/db/0"
    other = shell("cat $CRESS_STATE/data", job=2, type=JobType.DATABASE, name="db", group="g", user="nobody")
    end = client.run(other, 6)
    assert end.cause is Cause.NOT_STARTED
    assert end.error.endswith("belongs to another account than nobody, and is not empty")
    assert place.stat().st_uid == SOMEBODY
    shutil.rmtree(place)
    assert (
        client.run(
            shell("echo mine > $CRESS_STATE/data", job=2, type=JobType.DATABASE, name="db", group="g", user="nobody"), 7
        ).code
        == 0
    )
    assert place.stat().st_uid == NOBODY


def test_what_cannot_be_removed_is_not_tried_by_its_path(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a look and the removal a task may turn a folder into a link, and take away what was seen in it."""
    precious = home / "precious"
    precious.mkdir()
    (precious / "x").write_text("kept")
    folder = home / "attempts/5/work"
    folder.mkdir(parents=True)
    (folder / "x").write_text("")
    for each in (folder / "x", folder, folder.parent):
        os.utime(each, (1, 1))
    unlink = os.unlink

    def race(name: str, *, dir_fd: int | None = None) -> None:
        if name == "x" and folder.is_dir() and not folder.is_symlink():
            folder.rename(home / "aside")
            folder.symlink_to(precious)
            unlink(home / "aside/x")
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", race)
    remove_old_output(home / "attempts", (), age=1, size=0, now=10**9, is_full=lambda _: False)
    assert (precious / "x").exists()
