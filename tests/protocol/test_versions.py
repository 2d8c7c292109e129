"""Versions on the wire: what was recorded is understood, what is newer is left out or refused, never misread."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cress.model.reports import Started
from cress.protocol import messages as m
from cress.protocol.messages import PROTOCOL, UNSAID
from cress.protocol.versions import Dialect, Fields, VersionError, VersionStep, agreed
from cress.shell.executor import agent_effects as effects
from cress.shell.executor.agent import Agent
from tests.protocol.recorded import HELLO, INVENTORY, LAUNCHES, MESSAGES, STARTED, recorded

READ = {
    "from agent": Dialect.from_agent,
    "from center": Dialect.from_center,
    "to supervisor": Dialect.to_supervisor,
    "from supervisor": Dialect.from_supervisor,
}
EVERYTHING = [(way, message) for way, told in MESSAGES.items() for message in told]
MAJOR, MINOR = PROTOCOL


@pytest.mark.parametrize(("way", "message"), EVERYTHING, ids=lambda each: each if isinstance(each, str) else type(each))
def test_the_release_before_is_understood_and_understands(way: str, message: Any) -> None:
    dialect = Dialect(UNSAID)
    assert READ[way](dialect, recorded(way, message)) == message
    encoded = dialect.encode(message)
    assert encoded is not None
    # A message type with more than 15 fields has a longer head in front of the same fields.
    assert msgspec.msgpack.decode(encoded) == msgspec.msgpack.decode(recorded(way, message))


def test_every_message_of_the_release_before_is_recorded() -> None:
    unions = (m.FromAgent, m.FromCenter, m.ToSupervisor, m.FromSupervisor)
    ours = {each for union in unions for each in union.__args__}
    assert ours - {type(message) for _, message in EVERYTHING} == {
        m.Greeting,
        m.NewCertificate,
        m.AskMaterial,
        m.Material,
        m.Bulk,
        m.OpenBulk,
        m.Strangers,
        m.TimeLimits,
        m.ListFiles,
        m.ReadFile,
        m.FileList,
    }


@pytest.mark.parametrize(
    ("theirs", "oldest", "common"),
    [
        (PROTOCOL, MAJOR - 1, PROTOCOL),
        (UNSAID, 5, UNSAID),
        ((MAJOR, MINOR + 3), MAJOR - 1, PROTOCOL),
        ((MAJOR + 1, 2), MAJOR, PROTOCOL),
    ],
    ids=["the same", "the release before", "a newer minor version", "the release after"],
)
def test_two_sides_speak_the_version_of_the_older_one(
    theirs: tuple[int, int], oldest: int, common: tuple[int, int]
) -> None:
    assert agreed("executor", theirs, oldest, "center") == common


@pytest.mark.parametrize(
    ("theirs", "oldest", "sentence", "hint", "permanent"),
    [
        (
            (4, 0),
            4,
            f"the executor speaks protocol 4, this center 5 to {MAJOR}",
            "upgrade the executor to the release of this center",
            True,
        ),
        (
            (MAJOR + 2, 0),
            MAJOR + 1,
            f"the executor speaks protocol {MAJOR + 1} to {MAJOR + 2}, this center 5 to {MAJOR}",
            "upgrade this center first",
            False,
        ),
    ],
    ids=["too old", "too new"],
)
def test_sides_without_a_common_version_are_told_what_to_do(
    theirs: tuple[int, int], oldest: int, sentence: str, hint: str, permanent: bool
) -> None:
    with pytest.raises(VersionError) as error:
        agreed("executor", theirs, oldest, "center")
    assert (error.value.what, error.value.hint, error.value.permanent) == (sentence, hint, permanent)


# --- newer minor versions -------------------------------------------------------------------------------------------


def test_fields_of_a_newer_minor_version_are_left_out() -> None:
    data = msgspec.msgpack.encode({"type": "Beat", "sent": 5, "mood": "good"})
    assert Dialect((MAJOR, MINOR + 1)).from_agent(data) == m.Beat(sent=5)


def test_messages_of_a_newer_minor_version_are_left_out_and_of_no_other() -> None:
    data = msgspec.msgpack.encode({"type": "Weather", "rain": True})
    assert Dialect((MAJOR, MINOR + 1)).from_agent(data) is None
    with pytest.raises(msgspec.ValidationError):
        Dialect().from_agent(data)
    garbled = msgspec.msgpack.encode({"type": "Beat", "sent": "now"})
    with pytest.raises(msgspec.ValidationError):
        Dialect((MAJOR, MINOR + 1)).from_agent(garbled)


# --- the next major version ------------------------------------------------------------------------------------------


def _signal_newer(fields: Fields) -> Fields:
    fields["number"] = fields.pop("signal")
    return fields


def _signal_older(fields: Fields) -> Fields:
    fields["signal"] = fields.pop("number")
    return fields


# As if this release had renamed a field, and ``Devices`` were new.
NEXT = (MAJOR + 1, 0)
STEPS = {
    MAJOR + 1: VersionStep(newer={"Signal": _signal_newer}, older={"Signal": _signal_older, "Devices": lambda _: None})
}
SIGNAL = m.Signal(epoch=1, attempt=2, number=9)


def test_the_newer_side_converts_for_the_release_before() -> None:
    dialect = Dialect(PROTOCOL, NEXT, STEPS)
    data = dialect.encode(SIGNAL)
    assert data is not None
    assert msgspec.msgpack.decode(data) == {"type": "Signal", "epoch": 1, "attempt": 2, "signal": 9}
    assert dialect.to_supervisor(data) == SIGNAL
    assert dialect.encode(m.Devices(devices=())) is None
    assert dialect.encode(LAUNCHES) == m.encode(LAUNCHES), "the others are the same"


def test_messages_are_handed_on_as_they_are_between_sides_of_one_version_only() -> None:
    new, old = Dialect(NEXT, NEXT, STEPS), Dialect(PROTOCOL, NEXT, STEPS)
    data = new.encode(SIGNAL)
    assert data is not None
    assert new.hand_on(SIGNAL, data, new) is data
    handed = old.hand_on(SIGNAL, data, new)
    assert handed is not None
    assert old.to_supervisor(handed) == SIGNAL
    assert handed != data


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_an_agent_speaks_with_supervisor_and_center_of_the_release_before() -> None:
    agent = Agent("ws://c", retry=(1, 1), chance=lambda: 0.5)
    agent.begin()
    assert agent.supervisor_connected(INVENTORY) == [effects.ConnectCenter()], "no greeting: it would not be understood"
    agent.center_connected()
    (told,) = agent.looked_around(m.Hello(version=0, name="n1", resource="<4>", boot=""), ())
    assert isinstance(told, effects.ToCenter)
    assert m.decode_from_agent(told.message).version == 5
    welcome = recorded("from center", MESSAGES["from center"][0])
    sent = [each for each in agent.from_center(welcome) if isinstance(each, effects.ToSupervisor)]
    assert [type(m.decode_to_supervisor(each.message)) for each in sent] == [m.Devices, m.Welcome]
    launches = recorded("from center", LAUNCHES)
    assert agent.from_center(launches) == [effects.Ordered(LAUNCHES), effects.ToSupervisor(launches)]
    reports = m.encode(m.Reports(reports=(STARTED,)))
    assert agent.from_supervisor(reports) == [effects.ToCenter(reports), effects.SendingReports((STARTED,))]


def test_an_agent_and_a_supervisor_of_this_release_tell_their_versions() -> None:
    agent = Agent("ws://c", retry=(1, 1), chance=lambda: 0.5)
    agent.begin()
    inventory = msgspec.structs.replace(INVENTORY, protocol=PROTOCOL)
    first, _ = agent.supervisor_connected(inventory)
    assert isinstance(first, effects.ToSupervisor)
    assert m.decode_to_supervisor(first.message) == m.Greeting(protocol=PROTOCOL)
    agent.center_connected()
    (told,) = agent.looked_around(m.Hello(version=0, name="n1", resource="<4>", boot=""), ())
    assert isinstance(told, effects.ToCenter)
    hello = m.decode_from_agent(told.message)
    assert isinstance(hello, m.Hello)
    assert (hello.speaks, hello.oldest) == (PROTOCOL, MAJOR - 1)


def test_a_supervisor_that_is_too_old_is_left_in_peace() -> None:
    agent = Agent("ws://c", retry=(1, 1), chance=lambda: 0.5)
    agent.begin()
    old = msgspec.structs.replace(INVENTORY, protocol=(4, 0), reports=(Started(attempt=1, at=1, pid=1),))
    said, *rest = agent.supervisor_connected(old)
    assert isinstance(said, effects.Say)
    assert said.sentence.startswith(f"the supervisor speaks protocol 4, this agent 5 to {MAJOR}")
    assert rest == [effects.CloseBoth(), effects.ConnectSupervisor(start=False)]
    assert agent.supervisor_connected(old) == [effects.CloseBoth(), effects.Exit(3)]


def test_an_executor_of_protocol_5_says_so_by_its_number() -> None:
    assert HELLO.speaks == UNSAID
    assert msgspec.structs.replace(HELLO, version=4).speaks == (4, 0)
