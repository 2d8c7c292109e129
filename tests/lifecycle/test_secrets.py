"""Secrets as rows of the machine: kept over snapshots and logs, counted by owner, encrypted anew only if unchanged."""

from __future__ import annotations

import msgspec
import pytest

from cress.lifecycle.inputs import DeleteSecret, Input, RekeySecret, SetSecret
from cress.lifecycle.machine import Machine
from cress.lifecycle.secrets import usable
from cress.model.errors import InputError
from cress.model.secrets import MOST_SECRETS, Secret
from tests.lifecycle.builders import World


def secret(name: str = "db", owner: str = "ann", sealed: bytes = b"x", *, is_group: bool = False) -> Secret:
    return Secret(
        owner=owner, name=name, key="k1", sealed=sealed, size=1, created=5, changed=5, by="ann", is_group=is_group
    )


def refusal(world: World, each: Input) -> str:
    (reply,) = world.step(each).replies
    assert reply is None or isinstance(reply, InputError)
    return "" if reply is None else str(reply)


@pytest.fixture
def world() -> World:
    return World(followed=True)


def test_secrets_outlive_a_snapshot_and_are_known_to_followers(world: World) -> None:
    world.step(SetSecret(secret=secret()), SetSecret(secret=secret(owner="default", is_group=True)))
    world.step(SetSecret(secret=msgspec.structs.replace(secret(sealed=b"y"), created=9, changed=9)))
    there = dict(world.machine.tables.secrets)
    assert there["user ann", "db"] == msgspec.structs.replace(secret(sealed=b"y"), created=5, changed=9)
    assert dict(Machine.restore(world.machine.export()).tables.secrets) == there
    assert world.follower is not None
    assert dict(world.follower.tables.secrets) == there
    assert refusal(world, DeleteSecret(owner="ann", name="db")) == ""
    assert "there is no secret db" in refusal(world, DeleteSecret(owner="ann", name="db"))
    assert dict(world.follower.tables.secrets) == dict(world.machine.tables.secrets) != {}


def test_a_secret_that_was_set_meanwhile_is_not_replaced_by_its_old_value(world: World) -> None:
    world.step(SetSecret(secret=secret(sealed=b"old")))
    late = RekeySecret(owner="ann", name="db", key="k2", sealed=b"old, new key", before=b"old")
    world.step(SetSecret(secret=secret(sealed=b"new")), late)
    assert world.machine.tables.secrets["user ann", "db"].sealed == b"new"
    world.step(msgspec.structs.replace(late, sealed=b"new, new key", before=b"new"))
    assert world.machine.tables.secrets["user ann", "db"].key == "k2"


def test_an_owner_has_so_many_secrets_and_no_more(world: World) -> None:
    world.step(*(SetSecret(secret=secret(f"s{number}")) for number in range(MOST_SECRETS)))
    assert f"ann has {MOST_SECRETS} secrets" in refusal(world, SetSecret(secret=secret("more")))
    assert refusal(world, SetSecret(secret=secret("s1", sealed=b"other"))) == ""
    assert refusal(world, SetSecret(secret=secret("more", "bob"))) == ""
    assert "there is no group x" in refusal(world, SetSecret(secret=secret("more", "x", is_group=True)))


def test_a_job_means_the_secret_of_its_user_else_that_of_its_group(world: World) -> None:
    world.step(SetSecret(secret=secret()), SetSecret(secret=secret(owner="default", is_group=True)))
    secrets = world.machine.tables.secrets
    for user, group, found in (("ann", "default", "ann"), ("bob", "default", "default"), ("bob", "web", None)):
        secret_found = usable(secrets, user, group, "db")
        assert (secret_found.owner if secret_found else None) == found
    # A user who is called like a group.
    assert usable(secrets, "default", "web", "db") is None
