"""Users, tokens and join tokens as rows of the machine: counted once, and kept over snapshots, logs and repeated
requests.
"""

from __future__ import annotations

import msgspec
import pytest

from cress.lifecycle.inputs import (
    AddJoinToken,
    AddToken,
    Input,
    RevokeJoinToken,
    RevokeToken,
    SetUser,
    UseJoinToken,
)
from cress.lifecycle.machine import Machine
from cress.lifecycle.snapshot import Snapshot
from cress.lifecycle.tables.tables import TYPES
from cress.model.access import JoinToken, Role, Token, User
from cress.model.errors import NotAccepted
from cress.model.times import DAY, HOUR
from tests.lifecycle.builders import UTC_AT_START, World


def token(name: str = "ci", user: str = "ann") -> Token:
    return Token(id=f"id-{name}", name=name, user=user, role=Role.USER, digest=b"d", created=UTC_AT_START)


def join_token(name: str = "rack1", uses: int = 2, nodes: str = "*", life: int = HOUR) -> JoinToken:
    return JoinToken(
        id=f"id-{name}",
        name=name,
        user="oda",
        digest=b"d",
        created=UTC_AT_START,
        expires=UTC_AT_START + life,
        uses=uses,
        nodes=nodes,
    )


def use(node: str, key: bytes = b"k", name: str = "rack1") -> UseJoinToken:
    return UseJoinToken(id=f"id-{name}", node=node, key=key)


def refusal(world: World, each: Input) -> str:
    """The sentence with which an input is refused; empty if it is taken."""
    (reply,) = world.step(each).replies
    assert reply is None or isinstance(reply, NotAccepted)
    return "" if reply is None else str(reply)


@pytest.fixture
def world() -> World:
    return World(followed=True)


def test_a_snapshot_has_every_table() -> None:
    assert set(TYPES) <= {*Snapshot.__struct_fields__}


def test_users_and_tokens_outlive_a_snapshot(world: World) -> None:
    world.step(SetUser(user=User(name="mal", role=Role.NONE)), AddToken(token=token()), AddToken(token=token("gone")))
    world.step(RevokeToken(id="id-gone"), AddJoinToken(token=join_token()), use("n1"))
    again = Machine.restore(world.machine.export())
    for name in ("users", "tokens", "join_tokens", "joined"):
        kept, there = (dict(getattr(each.tables, name)) for each in (again, world.machine))
        assert kept == there != {}, name
    assert list(again.tables.tokens) == ["id-ci"]


def test_a_join_token_counts_each_node_once(world: World) -> None:
    world.step(AddJoinToken(token=join_token(uses=2)))
    assert refusal(world, use("n1")) == ""
    assert refusal(world, use("n1")) == "", "the same key asks again: its answer was lost"
    assert refusal(world, use("n2")) == ""
    assert "used up: 2 of 2" in refusal(world, use("n3"))
    assert refusal(world, use("n2")) == ""
    assert "with another key" in refusal(world, use("n1", b"other"))


def test_uses_are_neither_lost_nor_counted_twice_by_a_machine_that_goes_on(world: World) -> None:
    world.step(AddJoinToken(token=join_token(uses=2)))
    world.step(use("n1"))
    assert world.follower is not None
    for machine in (Machine.restore(world.machine.export()), world.follower.machine()):
        step = machine.step(world.now + 1, UTC_AT_START + world.now, (use("n1"), use("n2"), use("n3")))
        assert [reply is None for reply in step.replies] == [True, True, False]


def test_a_join_token_ends_and_fits_its_nodes(world: World) -> None:
    world.step(AddJoinToken(token=join_token(nodes="gpu-?", uses=5)))
    assert refusal(world, use("gpu-1")) == ""
    assert "is for nodes gpu-?, not for cpu-1" in refusal(world, use("cpu-1"))
    world.step(after=HOUR)
    assert "has expired" in refusal(world, use("gpu-2"))
    assert refusal(world, RevokeJoinToken(id="id-rack1")) == ""
    assert "revoked" in refusal(world, use("gpu-1"))
    assert "there is no join token" in refusal(world, RevokeJoinToken(id="id-rack1"))
    assert not world.machine.tables.joined


def test_names_of_join_tokens_are_unique_until_they_have_expired_long_ago(world: World) -> None:
    world.step(AddJoinToken(token=join_token()))
    again = msgspec.structs.replace(join_token(), id="other")
    assert "there is a join token rack1" in refusal(world, AddJoinToken(token=again))
    world.step(after=HOUR + DAY)
    assert refusal(world, AddJoinToken(token=again)) == ""
    assert list(world.machine.tables.join_tokens) == ["other"]


def test_tokens_that_have_expired_long_ago_make_room_for_others_of_their_user(world: World) -> None:
    short = msgspec.structs.replace(token("short"), expires=UTC_AT_START + HOUR)
    world.step(AddToken(token=short), AddToken(token=token("ever")), AddToken(token=token("of-bob", "bob")))
    world.step(AddToken(token=token("soon")), after=HOUR)
    assert "id-short" in world.machine.tables.tokens, "it is shown as expired for a day"
    world.step(AddToken(token=token("late")), after=DAY)
    assert set(world.machine.tables.tokens) == {"id-ever", "id-of-bob", "id-soon", "id-late"}
