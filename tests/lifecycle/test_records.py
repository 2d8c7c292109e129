"""Records: what they hold, how small they are, what another version's are taken for; followers and replay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.lifecycle.facts import CoreFact, Facts, UnknownFactError, packed, unpacked
from cress.lifecycle.follower import Follower
from cress.lifecycle.inputs import Input, Reported
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import MAJOR, MINOR, Record, decode_record, encode_record, inputs_of, record_of
from cress.lifecycle.replay import replay
from cress.lifecycle.slices import whole
from cress.lifecycle.tables.changes import RowChanges, apply, collect
from cress.lifecycle.tables.family_rows import CronState, Family, ReplicaState
from cress.lifecycle.tables.tables import Tables
from cress.model.advance import AdvanceReservation
from cress.model.decisions import Preempt, Start
from cress.model.events import (
    AdvanceReservationRemoved,
    AdvanceReserved,
    DataLocated,
    GroupsApplied,
    JobHeld,
    LicencesSet,
    LoadSeen,
    NodeCordoned,
    Outcome,
    PortsSeen,
    RacksSet,
    TaskEnded,
)
from cress.model.node import Load
from cress.model.options import Options
from cress.model.records import JobState
from tests.lifecycle.builders import DIMENSIONS, UTC_AT_START, World, job, started


def through_a_log(changes: RowChanges) -> RowChanges:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(changes), type=RowChanges)


def rows(tables: Tables) -> dict[str, list[Any]]:
    return {name: list(table.items()) for name, table in tables.by_name().items()}


# What is done to tables: to which row, and how.
_DEEDS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 2)), max_size=30)


@given(steps=st.lists(_DEEDS, max_size=4))
def test_changes_make_other_tables_the_same_in_the_same_order(steps: list[list[tuple[int, int, int]]]) -> None:
    ours, theirs = Tables(), Tables()
    for deeds in steps:
        for deed, key, value in deeds:
            do(ours, deed, key, value)
        apply(theirs, through_a_log(whole(collect(ours, dict))), {})
        assert rows(theirs) == rows(ours)
    assert not whole(collect(ours, dict)), "what was collected is not forgotten"


def do(tables: Tables, deed: int, key: int, value: int) -> None:
    """Write something somewhere."""
    families, family = tables.families, tables.families.get(key)
    if deed == 0:
        families[key] = Family(job=job(), submitted=value, template=0, members={value: value})
    elif deed == 1:
        families.pop(key, None)
    elif deed == 2:
        tables.ended[key] = tables.ended.pop(value, None) or (JobState.FAILED, value)
    elif deed == 3:
        tables.timers["rest", str(key)] = value
    elif deed == 4:
        tables.timers.pop(("rest", str(key)), None)
    elif family is None:
        tables.general[0].next_job += value
    elif deed == 5:
        family.state = ReplicaState(ends={value: "x"}) if value else CronState(seen=value)
    elif deed == 6:
        family.members[value] = family.members.pop(key, 7)
    elif deed == 7:
        family.members.pop(value, None)
        family.succeeded += 1
    elif isinstance(family.state, ReplicaState):
        family.state.out = (*family.state.out, value)
        family.state.failures[key] = value
        if deed == 9:
            family.state.failures.clear()


def test_what_nobody_would_note_is_taken_into_no_table() -> None:
    tables = Tables()
    tables.families[1] = Family(job=job(), submitted=0, template=0)
    with pytest.raises(TypeError, match=r"families\.1\.unmet was set to a list, whose changes nobody would note"):
        tables.families[1].unmet = []  # type: ignore[assignment]
    with pytest.raises(TypeError, match="members was set to a dict"):
        tables.families[1].members = {}
    with pytest.raises(TypeError, match=r"ended\.1 was set to a list"):
        tables.ended[1] = [1]  # type: ignore[assignment]


def test_starts_are_stored_by_columns() -> None:
    facts: list[CoreFact] = [
        Start(1, 7, 0, "n1"),
        Start(2, 7, 1, "n2"),
        Start(3, 7, 2, "n1"),
        Start(4, 7, 3, "n1", ports=(80,)),
        Start(5, 7, 9, "n1"),
        Start(6, 7, 4, "n1"),
        Start(7, 8, 0, "n1"),
        Preempt(1, 7, 0, "n1", 5, 8),
        TaskEnded(2),
        TaskEnded(3, Outcome.FAILED, again=True, after=4),
        JobHeld(7, False),
    ]
    stored = packed(facts)
    assert stored[0] == ["Starts", 1, 7, 0, ["n1", "n2"], b"\x00\x01\x00"]
    assert stored[2] == ["Starts", 5, 7, [9, 4], ["n1"], 2]
    assert stored[5] == ["TaskEnded", 2]
    assert list(unpacked(msgspec.msgpack.decode(msgspec.msgpack.encode(stored)))) == facts


def test_a_start_in_an_array_takes_few_bytes() -> None:
    """Its start and the report that it runs, with the inputs."""
    world = World(followed=True)
    for number in range(20):
        world.join(f"node{number}.cluster.example", 50)
    before = len(world.records)
    world.submit(job(1000))
    for name in list(world.machine.attempts_on):
        reports = tuple(started(each.id) for each in world.machine.on_node(name))
        world.step(Reported(node=name, reports=reports), after=1000)
    assert len(world.machine.attempts) == 1000
    size = sum(len(encode_record(record)) for record in world.records[before:])
    assert size <= 64 * 1000


def two_records() -> list[Record]:
    world = World(followed=True)
    world.join("n1")
    world.submit(job())
    return world.records


def again(records: list[Record]) -> Follower:
    follower = Follower.empty(DIMENSIONS, Options())
    for record in records:
        follower.apply(record)
    return follower


def test_what_a_newer_minor_version_adds_is_passed_over() -> None:
    records = two_records()
    rows = msgspec.to_builtins(records[-1].facts.rows)
    rows["loans"] = [[], [[1, 2]], []]
    rows["jobs"][1][0][1]["urgency"] = 3
    rows["general"][2][0][1]["leader"] = "c2"
    stored = msgspec.msgpack.decode(encode_record(records[-1]))
    newer = [[MAJOR, MINOR + 1], *stored[1:5], rows, {"more": True}]
    follower = again([*records[:-1], decode_record(msgspec.msgpack.encode(newer))])
    assert rows_of(follower) == rows_of(again(records))


def rows_of(follower: Follower) -> dict[str, list[Any]]:
    return rows(follower.tables)


def test_what_cannot_be_passed_over_is_refused_with_a_sentence() -> None:
    stored = msgspec.msgpack.decode(encode_record(two_records()[-1]))
    stored[4].append(["Loan", 1, 2])
    with pytest.raises(UnknownFactError, match="this release does not know the fact 'Loan': start the newer release"):
        decode_record(msgspec.msgpack.encode(stored))
    stored[0] = [MAJOR + 1, 0]
    with pytest.raises(ValueError, match=f"a record of version {MAJOR + 1} cannot be read, this release reads"):
        decode_record(msgspec.msgpack.encode(stored))


def test_a_replay_tells_the_first_difference() -> None:
    records = two_records()
    start = Machine(DIMENSIONS, Options()).export()
    assert replay(Machine.restore(start), records) is None
    facts = records[-1].facts
    facts.core[-1] = msgspec.structs.replace(facts.core[-1], node="n2")
    found = replay(Machine.restore(start), records)
    assert found is not None
    assert (found.record, found.now, found.place[0]) == (3, records[-1].now, "core")
    assert str(found) == "record 3 has 'n2' at core 1 4, the replay has 'n1'"
    facts.core.pop()
    assert "has nothing at core 1, the replay has ['Start', 1, 1, 0, 'n1']" in str(
        replay(Machine.restore(start), records)
    )


def test_a_follower_goes_on_from_a_snapshot_and_hands_over_to_a_machine() -> None:
    world = World(followed=True)
    world.join("n1")
    snapshot = world.machine.export()
    number, other = world.submit(job(6), job(2))
    world.run_all()
    follower = Follower.restore(snapshot)
    follower.apply(world.records[-2])
    follower = Follower.restore(follower.export())
    follower.apply(world.records[-1])
    machine = follower.machine()
    assert rows(machine.tables) == rows(world.machine.tables)
    assert machine.validate() == []
    ended = tuple(started(each) for each in machine.jobs[number].attempts)
    machine.step(world.now + 1, UTC_AT_START + world.now + 1, (Reported(node="n1", reports=ended),))
    assert machine.attempts.keys() == {1, 2, 3, 4}
    assert machine.next_job == other + 1


RESERVED = AdvanceReservation(name="r", start=1, end=2)
# What releases up to 0.1 stored of inputs that are events as well.
STORED_INPUTS: list[tuple[Any, dict[str, Any]]] = [
    (NodeCordoned("n1", True, "disk"), {"type": "Cordon", "name": "n1", "cordoned": True, "reason": "disk"}),
    (NodeCordoned("n1", False), {"type": "Cordon", "name": "n1", "cordoned": False}),
    (PortsSeen("n1", (22, 80)), {"type": "Ports", "name": "n1", "ports": [22, 80]}),
    (RacksSet((("r1", "r2"),)), {"type": "SetRacks", "neighbours": [["r1", "r2"]]}),
    (LoadSeen("n1", None), {"type": "LoadReported", "name": "n1", "load": None}),
    (LoadSeen("n1", Load(900)), {"type": "LoadReported", "name": "n1", "load": msgspec.to_builtins(Load(900))}),
    (DataLocated("hdfs:/a", None), {"type": "LocateData", "data": "hdfs:/a", "places": None}),
    (DataLocated("d", (("n1", 5),)), {"type": "LocateData", "data": "d", "places": [["n1", 5]]}),
    (LicencesSet((("matlab", 5),)), {"type": "SetLicences", "counts": [["matlab", 5]]}),
    (GroupsApplied((), by="ada"), {"type": "ApplyGroups", "groups": [], "by": "ada"}),
    (
        GroupsApplied((), (("a", "b"),), "UTC"),
        {"type": "ApplyGroups", "groups": [], "moves": [["a", "b"]], "zone": "UTC"},
    ),
    (AdvanceReservationRemoved("r", "ada"), {"type": "Unreserve", "name": "r", "by": "ada"}),
    (
        AdvanceReserved(RESERVED, replace=True),
        {"type": "Reserve", "reservation": msgspec.json.decode(msgspec.json.encode(RESERVED)), "replace": True},
    ),
]


@pytest.mark.parametrize(("given_input", "stored"), STORED_INPUTS, ids=lambda each: type(each).__name__)
def test_an_input_that_is_an_event_is_stored_under_the_name_that_it_had(
    given_input: Input, stored: dict[str, Any]
) -> None:
    record = record_of(1, 2, [given_input], Facts())
    assert msgspec.msgpack.decode(record.inputs) == [stored]
    read = decode_record(
        encode_record(msgspec.structs.replace(record, inputs=msgspec.Raw(msgspec.msgpack.encode([stored]))))
    )
    assert inputs_of(read) == (given_input,)


def test_events_are_stored_as_facts_under_their_own_names() -> None:
    assert [name for name, *_ in packed([each for each, _ in STORED_INPUTS])] == [
        type(each).__name__ for each, _ in STORED_INPUTS
    ]


def test_facts_say_nothing_of_users() -> None:
    # Older releases wrote none, and a replay of their logs compares.
    world = World()
    told = world.step(GroupsApplied(groups=(), by="ada")).facts.core
    assert [each.by for each in told if isinstance(each, GroupsApplied)] == [""]
