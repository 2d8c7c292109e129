"""Attempts whose files are brought before they start, and whose outputs are saved when they end: a real supervisor."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cress.model.job import JobType
from cress.model.reports import Cause
from cress.model.run import File, Run
from tests.executor.harness import PATIENCE, Client, SupervisorProcess, left_over, shell, supervisor, until
from tests.executor.sites import Site


def test_files_are_there_and_outputs_are_saved(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("one\n")
    run = shell(
        "cat data/words; echo two > result",
        files=(File(source=str(tmp_path / "words"), path="data/words"),),
        outputs=(File(path="result", source=f"{tmp_path}/out/$CRESS_JOB_ID-$CRESS_TASK_INDEX"),),
    )
    end = client.run(run, 5)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, 0, "")
    assert parent.output(5) == "one\n"
    assert parent.output(5, "stderr") == ""
    assert (tmp_path / "out/1-0").read_text() == "two\n"


def test_in_a_container_the_stage_stays_outside(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    if not client.inventory.container:
        pytest.skip("no containers on this machine: that files come into them was not shown")
    (tmp_path / "words").write_text("one\n")
    run = shell(
        "cat words; readlink /proc/self/ns/mnt; echo two > result",
        runtime="container",
        files=(File(source=f"file://{tmp_path}/words", path="words"),),
        outputs=(File(path="result", source=f"{tmp_path}/out/"),),
    )
    end = client.run(run, 5)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, 0, "")
    first, namespace = parent.output(5).splitlines()
    assert first == "one"
    assert namespace != str(Path("/proc/self/ns/mnt").readlink())
    assert (tmp_path / "out/result").read_text() == "two\n"


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account may pass through."""
    if os.geteuid() != 0:
        pytest.skip("only root has tasks of other accounts: whose files are brought and saved was not shown")
    folder = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path / "site") as it:
        yield it


FILES_FAIL = {
    "no such file of the node": (
        File(source="/no/such", path="x"),
        "x could not be fetched from /no/such: /no/such does not exist on this node",
    ),
    "no such page": (
        File(source="{site}/none", path="x"),
        "x could not be fetched from {site}/none: the server answers 404 Not Found",
    ),
    "a page for others": (
        File(source="{site}/status/403?key=secret", path="x"),
        "x could not be fetched from {site}/status/403?…: the server answers 403 Forbidden",
    ),
    "passwords are told nobody": (
        File(source="http://me:secret@127.0.0.1:{port}/none", path="x"),
        "x could not be fetched from {site}/none: the server answers 404 Not Found",
    ),
    "a package that is not there": (
        File(source="s3://name/x", path="x"),
        "x could not be fetched from s3://name/x: s3:// needs the Python package s3fs, which this node does not have",
    ),
    "an unknown kind": (
        File(source="xyz://place/x", path="x"),
        "x could not be fetched from xyz://place/x: xyz:// is not a known protocol",
    ),
    "out of the directory": (
        File(source="/etc/passwd", path="../x"),
        "../x could not be fetched from /etc/passwd: the path leads out of the task's directory",
    ),
    "no such variable": (
        File(source="/etc/$CRESS_NOTHING", path="x"),
        "x could not be fetched from /etc/$CRESS_NOTHING: this task has no variable CRESS_NOTHING",
    ),
    "no archive": (
        File(source="/etc/passwd", path="x", unpack=True),
        "x could not be fetched from /etc/passwd: it is neither a tar nor a zip archive, or a damaged one",
    ),
    "onto a folder": (
        File(source="/etc/passwd", path="/tmp"),
        "/tmp could not be fetched from /etc/passwd: /tmp is a folder",
    ),
}


@pytest.mark.parametrize("case", FILES_FAIL)
def test_without_its_files_a_program_is_not_started(
    client: Client, parent: SupervisorProcess, site: Site, case: str
) -> None:
    file, sentence = FILES_FAIL[case]
    file = msgspec.structs.replace(file, source=site.fill(file.source))
    end = client.run(shell("echo started", files=(file,)), 5)
    assert (end.cause, end.code, end.error) == (Cause.FILES, None, site.fill(sentence))
    assert 5 not in client.started
    assert end.started == 0
    assert not (parent.directory / "attempts/5/stdout").read_text()
    assert not list((parent.directory / "attempts/5/work").glob(".*")), "nothing half brought is left"


OUTPUTS_FAIL = {
    "no such file": (
        File(path="x", source="{tmp}/out"),
        "x could not be saved to {tmp}/out: the program left no such file",
    ),
    "nothing of a pattern": (
        File(path="*.csv", source="{tmp}/out/"),
        "*.csv could not be saved to {tmp}/out/: the program left nothing of this name",
    ),
    "a server that takes nothing": (
        File(path="result", source="{site}/status/403"),
        "result could not be saved to {site}/status/403: the server answers 403 Forbidden",
    ),
    "below a file": (
        File(path="result", source="/etc/passwd/x"),
        "result could not be saved to /etc/passwd/x: /etc/passwd: File exists",
    ),
}


@pytest.mark.parametrize("case", OUTPUTS_FAIL)
def test_what_cannot_be_saved_is_no_success(client: Client, site: Site, tmp_path: Path, case: str) -> None:
    file, sentence = OUTPUTS_FAIL[case]
    file = msgspec.structs.replace(file, source=site.fill(file.source).replace("{tmp}", str(tmp_path)))
    end = client.run(shell("echo two > result", outputs=(file,)), 5)
    expected = site.fill(sentence).replace("{tmp}", str(tmp_path))
    assert (end.cause, end.code, end.error) == (Cause.OUTPUTS, 0, expected)
    assert client.started[5].at == end.started


def test_of_a_program_that_failed_nothing_is_saved(client: Client, tmp_path: Path) -> None:
    run = shell("echo two > result; exit 7", outputs=(File(path="result", source=f"{tmp_path}/out"),))
    end = client.run(run, 5)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, 7, "")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "code"), [("exit 3", 3), ("kill -9 $$", -9), ("kill -TERM $$", -15), ("kill -INT $$", -2)]
)
def test_a_staged_program_ends_as_it_ends(client: Client, tmp_path: Path, text: str, code: int) -> None:
    end = client.run(shell(text, outputs=(File(path="result", source=f"{tmp_path}/out"),)), 5)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, code, "")


def test_a_command_that_is_not_there_after_its_files_came_is_said(client: Client) -> None:
    run = Run(job=1, command=("./tool",), files=(File(source="/etc/passwd", path="other"),))
    end = client.run(run, 5)
    assert (end.cause, end.code, end.error) == (Cause.FILES, None, "command not found: ./tool")


# --- how they come and go ---------------------------------------------------------------------------------------------


def test_pages_come_with_modes_and_a_busy_server_is_asked_again(
    client: Client, parent: SupervisorProcess, site: Site
) -> None:
    site.put("tool", b"#!/bin/sh\necho tool $1\n")
    site.busy["/tool"] = 2
    run = Run(
        job=1, command=("./bin/tool", "x"), files=(File(source=site.fill("{site}/tool"), path="bin/", mode=0o755),)
    )
    end = client.run(run, 5)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, 0, "")
    assert parent.output(5) == "tool x\n"


def test_a_server_that_breaks_off_is_asked_again_and_never_half_believed(
    client: Client, parent: SupervisorProcess, site: Site
) -> None:
    site.put("data", b"x" * 100_000)
    site.broken["/data"] = 1
    end = client.run(shell("wc -c < data", files=(File(source=site.fill("{site}/data"), path="data"),)), 5)
    assert (end.code, end.error) == (0, "")
    assert parent.output(5) == "100000\n"


def test_a_result_goes_to_a_server_whole(client: Client, site: Site) -> None:
    run = shell(
        "mkdir -p logs/deep; echo one > logs/a; echo two > logs/deep/b; echo r > result",
        outputs=(
            File(path="result", source=site.fill("{site}/jobs/$CRESS_JOB_ID/result?sign=x")),
            File(path="logs", source=site.fill("{site}/logs")),
        ),
    )
    end = client.run(run, 5)
    assert (end.cause, end.error) == (Cause.EXITED, "")
    assert site.taken == {"/jobs/1/result?sign=x": b"r\n", "/logs/a": b"one\n", "/logs/deep/b": b"two\n"}


def test_patterns_and_folders_keep_their_shape(client: Client, tmp_path: Path) -> None:
    run = shell(
        "mkdir -p r/x r/y; echo 1 > r/x/a.csv; echo 2 > r/y/b.csv; echo 3 > r/c.txt; chmod 755 r/c.txt; mkfifo r/pipe",
        outputs=(
            File(path="r/**/*.csv", source=f"{tmp_path}/csv"),
            File(path="r", source=f"{tmp_path}/all"),
            File(path="r/*.txt", source=f"{tmp_path}/${{CRESS_TASK_INDEX}}/"),
        ),
    )
    end = client.run(run, 5)
    assert (end.cause, end.error) == (Cause.EXITED, "")
    found = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}
    assert {each for each in found if not each.startswith("executor")} == {
        "csv/x/a.csv", "csv/y/b.csv", "all/x/a.csv", "all/y/b.csv", "all/c.txt", "0/c.txt",
    }  # fmt: skip
    assert (tmp_path / "0/c.txt").stat().st_mode & 0o111


def test_folders_and_archives_are_unpacked(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep/a").write_text("a\n")
    (source / "run").write_text("#!/bin/sh\necho ran\n")
    (source / "run").chmod(0o755)
    with tarfile.open(tmp_path / "it.tar.gz", "w:gz") as tar:
        tar.add(source, "it")
    with zipfile.ZipFile(tmp_path / "it.zip", "w") as packed:
        for each in ("deep/a", "run"):
            packed.write(source / each, each)
    files = (
        File(source=str(source), path="folder"),
        File(source=str(tmp_path / "it.tar.gz"), path="tar", unpack=True),
        File(source=str(tmp_path / "it.zip"), path="zip", unpack=True),
    )
    end = client.run(shell("cat folder/deep/a tar/it/deep/a zip/deep/a; zip/run; tar/it/run; ls -A", files=files), 5)
    assert (end.code, end.error) == (0, "")
    assert parent.output(5).split() == ["a", "a", "a", "ran", "ran", "folder", "tar", "zip"]


def evil_tar(path: Path, member: tarfile.TarInfo) -> None:
    with tarfile.open(path, "w") as tar:
        tar.addfile(member)


def member(name: str, **more: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(info, key, value)
    return info


@pytest.mark.parametrize(
    "info",
    [
        member("../out"),
        member("link", type=tarfile.SYMTYPE, linkname="/etc"),
        member("device", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    ],
    ids=lambda info: info.name,
)
def test_archives_do_not_lead_out(
    client: Client, parent: SupervisorProcess, tmp_path: Path, info: tarfile.TarInfo
) -> None:
    evil_tar(tmp_path / "evil.tar", info)
    end = client.run(shell("true", files=(File(source=f"{tmp_path}/evil.tar", path="x", unpack=True),)), 5)
    assert end.cause is Cause.FILES
    assert end.error.endswith(f"the archive has a member that leads out of it or is not a file: {info.name}")
    assert not (parent.directory / "attempts/5/work/x").exists()


def test_an_archive_gives_nobody_more_rights(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    evil_tar(tmp_path / "evil.tar", member("tool", mode=0o6755, uid=1, uname="daemon"))
    end = client.run(
        shell("stat -c '%a %U' x/tool", files=(File(source=f"{tmp_path}/evil.tar", path="x", unpack=True),)), 5
    )
    assert end.error == ""
    assert parent.output(5) == "755 root\n"


# --- whose they are ---------------------------------------------------------------------------------------------------


def test_files_are_read_and_written_by_the_account_of_the_task(open_folder: Path) -> None:
    secret = open_folder / "secret"
    secret.write_text("root's\n")
    secret.chmod(0o600)
    (open_folder / "out").mkdir()
    (open_folder / "out").chmod(0o777)
    with supervisor(open_folder / "executor") as parent:
        client = parent.start()
        end = client.run(shell("true", run_as="daemon", files=(File(source=str(secret), path="x"),)), 5)
        assert end.cause is Cause.FILES
        assert end.error == f"x could not be fetched from {secret}: daemon may not use {secret} on this node"
        secret.chmod(0o644)
        run = shell(
            "stat -c %U x; id -un; echo mine > result; touch $CRESS_DIRECTORY/more",
            job=2,
            run_as="daemon",
            files=(File(source=str(secret), path="x"),),
            outputs=(File(path="result", source=f"{open_folder}/out/result"),),
        )
        end = client.run(run, 6)
        assert (end.cause, end.error, end.code) == (Cause.EXITED, "", 0)
        assert parent.output(6) == "daemon\ndaemon\n"
        assert (open_folder / "out/result").owner() == "daemon"


def test_nothing_secret_is_left_behind(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    run = shell(
        "env | grep -c hunter2; tr '\\0' '\\n' < /proc/$PPID/environ | grep -c hunter2",
        environment=(("TOKEN", "hunter2"),),
        outputs=(File(path="none", source=f"{tmp_path}/out"),),
    )
    client.run(run, 5)
    assert parent.output(5) == "1\n0\n", "the program has it, the stage does not"
    for each in parent.directory.rglob("*"):
        if each.is_file():
            assert b"hunter2" not in each.read_bytes(), each


# --- stops, limits, the end of the supervisor -------------------------------------------------------------------------


def test_a_stop_while_files_are_brought_ends_it_at_once(client: Client, parent: SupervisorProcess, site: Site) -> None:
    site.put("slow", b"x" * 1000)
    site.slow.add("/slow")
    client.launch(shell("true", files=(File(source=site.fill("{site}/slow"), path="x"),)), 5)
    until(lambda: "/slow" in site.asked, "the download")
    client.stop(5, grace=PATIENCE)
    end = client.wait_ended(5)
    assert (end.cause, end.started) == (Cause.STOPPED, 0)
    until(lambda: not left_over(parent.directory))


def test_the_time_that_files_take_counts(client: Client, site: Site) -> None:
    site.put("slow", b"x" * 1000)
    site.slow.add("/slow")
    end = client.run(shell("true", time_limit=1_000_000, files=(File(source=site.fill("{site}/slow"), path="x"),)), 5)
    assert (end.cause, end.started) == (Cause.TIME_LIMIT, 0)


def test_a_staged_program_has_its_grace(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    text = "trap 'echo bye; echo half > result; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    client.launch(shell(text, outputs=(File(path="result", source=f"{tmp_path}/out"),)), 5)
    until(lambda: parent.output(5) == "ready\n" if (parent.directory / "attempts/5/stdout").exists() else False)
    client.stop(5, grace=PATIENCE)
    end = client.wait_ended(5)
    assert (end.cause, end.code) == (Cause.STOPPED, 0)
    assert parent.output(5) == "ready\nbye\n"
    assert not (tmp_path / "out").exists(), "what was stopped has no result"


def test_a_stage_outlives_its_supervisor(client: Client, parent: SupervisorProcess, site: Site, tmp_path: Path) -> None:
    site.put("slow", b"x" * 1000)
    site.slow.add("/slow")
    waits = f"echo ready; while ! [ -e {tmp_path}/go ]; do sleep 0.02; done"
    missing = File(path="none", source=f"{tmp_path}/none")
    client.launch(shell(f"{waits}; echo late > result", outputs=(File(path="result", source=f"{tmp_path}/out"),)), 5)
    client.launch(shell(waits, job=2, outputs=(missing,)), 6)
    client.launch(shell("echo ran", job=3, files=(File(source=site.fill("{site}/slow"), path="x"),)), 7)
    client.wait_started(5)
    client.wait_started(6)
    until(lambda: "/slow" in site.asked, "the download")
    parent.kill()
    again = parent.start()
    assert again.wait_started(5) == client.started[5]
    site.slow.clear()
    (tmp_path / "go").touch()
    assert again.wait_ended(5).cause is Cause.UNKNOWN, "nobody saw how it ended"
    assert (tmp_path / "out").read_text() == "late\n"
    end = again.wait_ended(6)
    assert (end.cause, end.error) == (
        Cause.OUTPUTS,
        f"none could not be saved to {tmp_path}/none: the program left no such file",
    )
    assert again.wait_ended(7).cause is Cause.UNKNOWN
    assert parent.output(7) == "ran\n"


def test_a_killed_stage_takes_its_program_along(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    client.launch(shell("echo ready; sleep 1000", outputs=(File(path="x", source=f"{tmp_path}/x"),)), 5)
    os.kill(client.wait_started(5).pid, signal.SIGKILL)
    end = client.wait_ended(5)
    assert (end.cause, end.code) == (Cause.EXITED, -9)
    assert not left_over(parent.directory)


# --- directories that outlive attempts --------------------------------------------------------------------------------


def test_a_database_finds_its_directory_again(client: Client, parent: SupervisorProcess) -> None:
    run = shell(
        "touch $CRESS_STATE/$CRESS_ATTEMPT; ls $CRESS_STATE; echo $CRESS_STATE $CRESS_JOB_ID",
        job=12, name="../pg main", group="team.a", type=JobType.DATABASE, family=7,
    )  # fmt: skip
    client.run(run, 5)
    client.run(run, 6)
    place = parent.directory / "data/team.a/..%2Fpg%20main/0"
    assert parent.output(6) == f"5\n6\n{place} 7\n"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    client.run(shell("echo [$CRESS_STATE]", job=13, name="plain"), 8)
    assert parent.output(8) == "[]\n"


def test_a_database_of_an_account_owns_its_directory(open_folder: Path) -> None:
    text = "cd $CRESS_STATE && touch x && stat -c %U . x"
    with supervisor(open_folder / "executor") as parent:
        client = parent.start()
        assert client.run(shell(text, run_as="daemon", name="pg", group="g", type=JobType.DATABASE), 5).code == 0
        assert parent.output(5) == "daemon\ndaemon\n"


def test_out_of_a_container_leads_no_link(client: Client, tmp_path: Path) -> None:
    if not client.inventory.container:
        pytest.skip("no containers on this machine: that links do not lead out of them was not shown")
    (tmp_path / "secret").write_text("of the node\n")
    links = shell(
        f"ln -s {tmp_path}/secret result; ln -s {tmp_path} folder",
        runtime="container",
        outputs=(File(path="result", source=f"{tmp_path}/out"),),
    )
    end = client.run(links, 5)
    why = "the path leads out of the directories of the task's container"
    assert (end.cause, end.error) == (Cause.OUTPUTS, f"result could not be saved to {tmp_path}/out: {why}")
    run = shell("true", job=2, runtime="container", files=(File(source="/etc/passwd", path=f"{tmp_path}/x"),))
    end = client.run(run, 6)
    assert (end.cause, end.error) == (Cause.FILES, f"{tmp_path}/x could not be fetched from /etc/passwd: {why}")
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "out").exists()
