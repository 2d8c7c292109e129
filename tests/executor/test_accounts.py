"""The account that a task runs as: the rules, and that real tasks have it with its groups, and no way to more
rights.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor import processes
from cress.executor.account_rules import FILE, TaskAccounts, write_rules
from cress.executor.exec.helper_process import HelperProcess
from cress.executor.runtimes import default_limits
from cress.executor.runtimes.accounts import AccountRules, account_of
from cress.model.reports import Cause
from cress.model.run import File, Run
from cress.shell.executor.starting import StartError
from tests.executor.harness import Client, SupervisorProcess, shell, supervisor, until
from tests.executor.real_accounts import accounts, needs_accounts, open_home
from tests.executor.test_exec_helper import run as enter

__all__ = ["accounts", "open_home"]

UIDS = {"root": 0, "toor": 0, "daemon": 1, "cups": 999, "ann": 1000, "svc_ann": 1001, "bob": 4000}
RULES = AccountRules(
    users={"carl": "svc_ann", "dora": "root", "eve": "daemon", "ann": "ann"}, root_groups=("infra", "default")
)
BELOW = "(uid 1, below 1000)"
SYSTEM = "only its operator can allow this to a group (cress executor --root-group)"

# The user, run_as, the group; the account, or the beginning of the refusal.
CASES = {
    "a user has the account of the same name": ("bob", "", "web", "bob"),
    "a user who is mapped has that account": ("carl", "", "web", "svc_ann"),
    "a user who names himself is mapped too": ("carl", "carl", "web", "svc_ann"),
    "another account that the center has allowed": ("bob", "ann", "web", "ann"),
    "no account": ("zoe", "", "web", "account zoe does not exist on this node (the user of the job)"),
    "no account by run_as": ("bob", "zoe", "web", "account zoe does not exist on this node (run_as)"),
    "a name that cannot be one": ("a\0b", "", "web", "account a\0b does not exist on this node (the user of the job)"),
    "an account of the system": (
        "daemon",
        "",
        "web",
        (
            f"tasks of daemon in the group web do not run as daemon, which is a system account {BELOW} on "
            f"this node: {SYSTEM}"
        ),
    ),
    "the last account of the system": ("cups", "", "web", "tasks of cups in the group web do not run as cups"),
    "an account of the system by run_as": (
        "bob",
        "daemon",
        "web",
        "tasks of bob in the group web do not run as daemon",
    ),
    "an account of the system by a map": ("eve", "", "web", "tasks of eve in the group web do not run as daemon"),
    "root": ("bob", "root", "web", f"tasks of bob in the group web do not run as root on this node: {SYSTEM}"),
    "root by a map": ("dora", "", "web", "tasks of dora in the group web do not run as root on this node"),
    "root by another name": ("toor", "", "web", "tasks of toor in the group web do not run as toor, which is root"),
    "root in a group that may": ("dora", "", "infra", "root"),
    "an account of the system in a group that may": ("bob", "daemon", "infra", "daemon"),
    "the operator as himself": ("root", "", "web", "root"),
    "the operator as any account": ("root", "daemon", "web", "daemon"),
}


@pytest.fixture
def _node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with these accounts, whose executor is root."""

    def entry(name: str) -> pwd.struct_passwd:
        if "\0" in name:
            raise ValueError("embedded null byte")
        return pwd.struct_passwd((name, "x", UIDS[name], UIDS[name], "", f"/home/{name}", "/bin/sh"))

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid, 50] if name == "bob" else [gid])
    monkeypatch.setattr(pwd, "getpwnam", entry)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry("root"))


@pytest.mark.usefixtures("_node")
@pytest.mark.parametrize("case", CASES)
def test_the_account_of_a_task(case: str) -> None:
    user, run_as, group, expected = CASES[case]
    run = Run(job=1, command=("true",), user=user, run_as=run_as, group=group)
    if " " not in expected:
        account = account_of(run, RULES)
        assert account is not None
        assert (account.name, account.uid) == (expected, UIDS[expected])
        return
    with pytest.raises(StartError) as refused:
        account_of(run, RULES)
    assert str(refused.value).startswith(expected)
    assert not refused.value.node, "the node is not at fault"


@pytest.mark.usefixtures("_node")
def test_an_account_comes_with_all_its_groups() -> None:
    account = account_of(Run(job=1, command=("true",), user="bob"))
    assert account is not None
    assert account.ids == (4000, 4000, (4000, 50))


def test_an_executor_that_is_not_root_has_one_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert account_of(Run(job=1, command=("true",), user="zoe"), RULES) is None
    with pytest.raises(StartError, match="only, not as root: its executor is not root"):
        account_of(Run(job=1, command=("true",), user="zoe", run_as="root"), RULES)


@pytest.mark.usefixtures("_node")
def test_a_right_that_is_taken_away_is_gone_for_the_next_task(tmp_path: Path) -> None:
    run = Run(job=1, command=("true",), user="dora", group="infra")
    known = TaskAccounts(tmp_path)
    with pytest.raises(StartError, match="account dora does not exist"):
        known.account_of(run)
    write_rules(tmp_path, RULES)
    known.look_again()  # as before each turn of a supervisor
    account = known.account_of(run)
    assert account is not None
    assert account.name == "root"
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    write_rules(tmp_path, AccountRules(users=RULES.users))
    known.look_again()
    with pytest.raises(StartError, match="do not run as root"):
        known.account_of(run)


@pytest.mark.usefixtures("_node")
def test_nothing_starts_by_rules_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"root_groups": 7}')
    known = TaskAccounts(tmp_path)
    for _ in range(2):
        with pytest.raises(StartError, match="the rules for accounts cannot be read") as refused:
            known.account_of(Run(job=1, command=("true",), user="bob"))
        assert refused.value.node
    write_rules(tmp_path, AccountRules())
    assert known.account_of(Run(job=1, command=("true",), user="bob")) is not None


NO_LIMIT = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        ((1024, 4096), (1024, 4096)),
        ((NO_LIMIT, NO_LIMIT), (1 << 20, 1 << 20)),
        ((1 << 30, 1 << 30), (1 << 20, 1 << 20)),
        ((1024, NO_LIMIT), (1024, 1 << 20)),
    ],
)
def test_open_files_are_limited_where_nothing_is_said(inherited: tuple[int, int], expected: tuple[int, int]) -> None:
    assert default_limits.files(inherited) == expected


def test_the_processes_of_an_account_are_at_most_half_of_those_of_the_node() -> None:
    soft, hard = default_limits.processes()
    assert 0 < soft <= hard
    assert hard <= max(4096, int(Path("/proc/sys/kernel/threads-max").read_text()) // 2)


# --- real tasks -------------------------------------------------------------------------------------------------------

SHOW = (
    "id -u; id -G; grep -E '^(NoNewPrivs|CapEff)' /proc/self/status; ulimit -n; grep 'Max processes' "
    "/proc/self/limits; stat -c %U:%a $CRESS_DIRECTORY; readlink /proc/self/ns/user; stat -c %U /etc"
)


@pytest.fixture(scope="module")
def parent(open_home: Path) -> Iterator[SupervisorProcess]:
    with supervisor(open_home / "e") as process:
        yield process


@pytest.fixture(scope="module")
def client(parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, pwd.struct_passwd]) -> Client:
    client = parent.start()
    write_rules(parent.directory, AccountRules(users={"ann": accounts[0].pw_name, "dora": "root"}))
    return client


def user_namespace(pid: int | str) -> str:
    return str(Path(f"/proc/{pid}/ns/user").readlink())


@needs_accounts
def test_tasks_of_every_runtime_run_as_the_account_of_their_user(
    client: Client, parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, pwd.struct_passwd]
) -> None:
    ann = accounts[0]
    groups = sorted(os.getgrouplist(ann.pw_name, ann.pw_gid))
    assert len(groups) == 2, "the account is in a further group"
    files = (File(source="/etc/hostname", path="x"),)
    outputs = (File(path="x", source=f"{parent.directory.parent}/shared/x"),)
    (parent.directory.parent / "shared").mkdir()
    (parent.directory.parent / "shared").chmod(0o777)
    kinds = [("process", (), ()), ("process", files, outputs)]
    if client.inventory.container:
        kinds += [("container", (), ()), ("container", files, outputs)]
    for attempt, (runtime, brought, saved) in enumerate(kinds, 1):
        run = shell(SHOW, job=attempt, user="ann", group="web", runtime=runtime, files=brought, outputs=saved)
        end = client.run(run, attempt)
        assert (end.code, end.error) == (0, ""), parent.output(attempt, "stderr")
        uid, gids, capabilities, privileges, files_limit, most, folder, users, owner = parent.output(
            attempt
        ).splitlines()
        assert int(uid) == ann.pw_uid
        assert sorted(map(int, gids.split())) == groups
        assert capabilities.split()[1].strip("0") == ""
        assert privileges.split() == ["NoNewPrivs:", "1"]
        assert int(files_limit) <= 1 << 20
        assert runtime == "container" or int(most.split()[3]) <= default_limits.processes()[1]
        assert folder == f"{ann.pw_name}:700"
        assert (users == user_namespace("self")) == (runtime == "process")
        assert owner == "root", "numbers are the same inside"
        if saved:
            assert (parent.directory.parent / "shared/x").stat().st_uid == ann.pw_uid


@needs_accounts
def test_a_command_in_a_container_has_the_account_and_its_user_namespace(
    client: Client, parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, pwd.struct_passwd]
) -> None:
    if not client.inventory.container:
        pytest.skip("no containers on this machine: commands in them were not tried")
    client.launch(Run(job=50, command=("/bin/sleep", "1000"), user="ann", runtime="container"), 50)
    pid = client.wait_started(50).pid
    until(lambda: processes.command_of(pid) == "/bin/sleep", "the program")
    text = "id -u; id -G; readlink /proc/self/ns/user; pwd; touch x; stat -c %U x; grep CapEff /proc/self/status"

    async def story() -> tuple[int, str]:
        helper = HelperProcess(str(parent.directory / "attempts"))
        try:
            return await enter(helper, pid, "sh", "-c", text, attempt=50)
        finally:
            helper.close()

    code, said = asyncio.run(story())
    assert code == 0, said
    uid, gids, users, place, owner, capabilities = said.splitlines()
    assert (int(uid), owner) == (accounts[0].pw_uid, accounts[0].pw_name)
    assert sorted(map(int, gids.split())) == sorted(os.getgrouplist(accounts[0].pw_name, accounts[0].pw_gid))
    assert users == user_namespace(pid) != user_namespace("self")
    assert place == str(parent.directory / "attempts/50/work")
    assert capabilities.split()[1].strip("0") == ""


@needs_accounts
def test_system_accounts_and_root_are_refused_before_anything_is_made(
    client: Client, parent: SupervisorProcess
) -> None:
    runtimes = ("process", "container") if client.inventory.container else ("process",)
    attempt = 100
    for runtime in runtimes:
        for user, files in (("daemon", ()), ("dora", ()), ("dora", (File(source="/etc/hostname", path="x"),))):
            attempt += 1
            end = client.run(shell("true", job=attempt, user=user, group="web", runtime=runtime, files=files), attempt)
            assert end.cause is Cause.NOT_STARTED
            assert "do not run as" in end.error
            assert not (parent.directory / "attempts" / str(attempt)).exists()


@needs_accounts
def test_programs_of_root_give_a_task_no_rights(
    client: Client, parent: SupervisorProcess, accounts: tuple[pwd.struct_passwd, pwd.struct_passwd], open_home: Path
) -> None:
    program = open_home / "as-root"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    program.chmod(0o4755)
    for attempt, user in ((200, accounts[1].pw_name), (201, "root")):
        client.run(shell(f"{program} -u", job=attempt, user=user, group="web"), attempt)
    assert (parent.output(200), parent.output(201)) == (f"{accounts[1].pw_uid}\n", "0\n")
