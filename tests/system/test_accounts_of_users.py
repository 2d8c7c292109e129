"""Users of a center and the accounts of a node: whose tasks run as whom, through everything in between."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

import pytest

from cress.client import Client
from cress.client import calls as access
from tests.executor.real_accounts import accounts, needs_accounts
from tests.system.cluster import Cluster, wait_until

__all__ = ["accounts"]
pytestmark = [needs_accounts, pytest.mark.long]

GROUPS = "Name: infra\nResourceQuota: 4\nUsers: ann | root\n\nName: lab\nResourceQuota: 4\nUsers: *\n"


@pytest.fixture(scope="module")
def cluster(accounts: tuple[pwd.struct_passwd, ...]) -> Iterator[Cluster]:
    """A center of root with a node on which ann has another account, and tasks of ``infra`` may run as accounts of the
    system.
    """
    cluster = Cluster()
    cluster.folder.chmod(0o711)
    try:
        groups = str(cluster.file("groups.conf", GROUPS))
        cluster.start_center("--groups", groups, "--run-as", "daemon", "--visibility", "own")
        cluster.start_executor("n1", "<4, 8G>", "--map-user", f"ann={accounts[0].pw_name}", "--root-group", "infra")
        yield cluster
    finally:
        cluster.stop()


def acting(cluster: Cluster, user: str) -> Client:
    """Return a client with a new token of the user."""
    with cluster.client() as owner:
        secret = owner.ask(access.create_token(f"t{os.urandom(4).hex()}", user=user)).secret
    return Client(cluster.address("url"), secret)


def test_tasks_run_as_the_accounts_of_their_users(cluster: Cluster, accounts: tuple[pwd.struct_passwd, ...]) -> None:
    first, second = (each.pw_name for each in accounts)
    refused = "do not run as daemon, which is a system account (uid 1, below 1000) on this node"
    cases = [
        ("ann", {}, first),
        ("ann", {"run_as": "ann"}, first),
        (second, {}, second),
        ("root", {}, "root"),
        ("root", {"run_as": "daemon"}, "daemon"),
        ("ann", {"run_as": "daemon", "group": "infra"}, "daemon"),
        ("ann", {"run_as": "daemon"}, f"tasks of ann in the group lab {refused}"),
        ("daemon", {}, f"tasks of daemon in the group lab {refused}"),
        ("zoe", {}, "account zoe does not exist on this node (the user of the job)"),
    ]
    with cluster.client() as owner:
        ids = []
        for user, more, _ in cases:
            with acting(cluster, user) as client:
                job = {"command": "id -un", "group": "lab", "retries": 0, **more}
                ids.append(client.submit([job]).jobs[0].id)
        for id, (user, more, expected) in zip(ids, cases, strict=True):
            view = owner.job(id, wait=60)
            if " " in expected:
                assert view.state == "failed", (user, more)
                assert expected in owner.task(id, 0).attempts[-1].error
            else:
                assert view.state == "succeeded", (user, more, owner.task(id, 0).attempts)
                assert cluster.cress("logs", id).stdout == f"{expected}\n"


def test_a_user_has_no_way_into_the_task_of_another(cluster: Cluster, accounts: tuple[pwd.struct_passwd, ...]) -> None:
    second = accounts[1].pw_name
    with acting(cluster, "ann") as ann, acting(cluster, second) as other:
        job = {"command": "echo hunter2 > file; echo up; exec sleep 1000", "group": "lab"}
        victim = ann.submit([job]).jobs[0].id
        attempt = wait_until(lambda: ann.task(victim, 0).attempts, "the task")[-1].id
        folder = cluster.data / "executors/n1/attempts" / str(attempt)
        wait_until((folder / "work/file").exists, "the file of the victim")
        text = (
            f"cat {folder}/work/file {folder}/stdout; ls {folder} {folder.parent}; cat {cluster.data}/token; "
            f"cat {cluster.data}/cress.db; ls {cluster.data}; pkill -u {accounts[0].pw_name} sleep; true"
        )
        spy = other.submit([{"command": text, "group": "lab"}]).jobs[0].id
        assert other.job(spy, wait=60).state == "succeeded"
        assert ann.job(victim).state == "running"
        ann.cancel(victim)
    assert cluster.cress("logs", spy).stdout == ""
    said = cluster.cress("logs", spy, "--stderr").stdout
    assert said.count("Permission denied") == 7, said
