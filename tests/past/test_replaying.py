"""A recorded log is decided again: the same decisions over restarts and files, and the first difference is found."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cress.center.keeping.event_log import EventLog
from cress.lifecycle.facts import Facts
from cress.lifecycle.record import decode_record, encode_record
from cress.model.decisions import Start
from cress.model.errors import InputError
from cress.model.options import Options
from cress.past.event_file import read
from cress.past.explaining import explained_at
from cress.past.recorded_log import RecordedLog
from cress.past.replaying import replay_log
from tests.lifecycle.builders import job
from tests.past.recorder import UTC, Recorder, busy_day

SECOND = 1_000_000


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of one eventful day, in two files."""
    return busy_day(tmp_path_factory.mktemp("day"))


def rewritten(source: Path, target: Path, change: Any) -> int:
    """Write a copy of one file whose records ``change`` may replace; return the number of the first changed one."""
    file = read(source)
    log = EventLog(target)
    log.open(file.header.before, [], lambda: file.header.state, file.header.created)
    first = 0
    for number, data in file.raw():
        new = change(data)
        first = first or (number if new != data else 0)
        log.append(new)
    log.close()
    return first


def elsewhere(data: bytes) -> bytes:
    """A record whose first start on n1 is on n2 instead."""
    record = decode_record(data)
    core = list(record.facts.core)
    for i, fact in enumerate(core):
        if isinstance(fact, Start) and fact.node == "n1":
            core[i] = msgspec.structs.replace(fact, node="n2")
            break
    return encode_record(msgspec.structs.replace(record, facts=Facts(core, record.facts.rows)))


def test_the_same_decisions_over_files_restarts_and_preemption(day: Path) -> None:
    found = replay_log(RecordedLog(day))
    assert found.difference is None
    assert (found.restarts, len(found.files), found.gaps) == (2, 2, [])
    assert found.preemptions > 0
    assert found.starts > 10
    assert found.first == 1


@pytest.mark.parametrize("more", [False, True])
def test_a_center_goes_on_with_what_was_foreseen_at_its_snapshot(tmp_path: Path, *, more: bool) -> None:
    """A job came to its turn before the snapshot, with which the center stops, or (``more``) which is older."""
    it = Recorder(tmp_path, Options(drain_after=30 * SECOND), nodes=1)
    (first,) = it.submit(job(2, group="web", name="first"))
    it.submit(job(4, group="ads", name="whole", gang=True))
    it.step(after=31)
    it.snapshot()
    if more:
        it.submit(job(1, group="ads", name="small"))
    it.restart()
    it.end(first)
    begun = [fact for _, record in read(RecordedLog(it.close()).paths[0]) for fact in record.facts.core]
    assert [fact.due for fact in begun if isinstance(fact, Start)][2:] == [True] * 4
    assert replay_log(RecordedLog(tmp_path)).difference is None


def test_only_the_steps_of_the_time_are_compared(day: Path) -> None:
    found = replay_log(RecordedLog(day), UTC + 60 * SECOND, UTC + 100 * SECOND)
    assert found.since >= UTC + 60 * SECOND
    assert found.until < UTC + 100 * SECOND
    assert 0 < found.records < replay_log(RecordedLog(day)).records


def test_the_first_different_decision_is_found_with_its_state(day: Path, tmp_path: Path) -> None:
    number = rewritten(RecordedLog(day).paths[0], tmp_path, elsewhere)
    found = replay_log(RecordedLog(tmp_path))
    assert found.difference is not None
    assert found.difference.record == number
    assert (found.difference.stored, found.difference.replayed) != (None, None)
    assert any("node n1" in line for line in found.before)
    assert "nodes connected" in found.before[0]


def test_a_state_that_was_read_again_without_a_restart_is_no_difference(tmp_path: Path) -> None:
    it = Recorder(tmp_path, Options(), nodes=1)
    it.submit(job(2, cpus=2, group="ads", time_limit=100 * SECOND))
    it.submit(job(1, cpus=4, group="ads", time_limit=100 * SECOND))
    it.read_again()
    it.submit(job(1, cpus=1, group="web", time_limit=10 * SECOND))
    it.step(after=5)
    assert replay_log(RecordedLog(it.close())).difference is None


def test_damage_is_told_with_its_place_and_a_cut_end_is_not(day: Path, tmp_path: Path) -> None:
    content = bytearray(RecordedLog(day).paths[0].read_bytes())
    (tmp_path / "00000001.events").write_bytes(content[:-7])
    assert replay_log(RecordedLog(tmp_path)).difference is None
    content[-400] ^= 0xFF
    (tmp_path / "00000001.events").write_bytes(content)
    with pytest.raises(InputError, match=r"00000001.events: is damaged at byte \d+"):
        replay_log(RecordedLog(tmp_path))
    # What was before the damage can be asked for.
    before = replay_log(RecordedLog(tmp_path), UTC, UTC + 5 * SECOND)
    assert before.records > 0
    assert before.difference is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a file of an event log"),
        (b"hello\n" * 40, "is not a file of an event log"),
    ],
)
def test_a_foreign_file_is_told(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "00000001.events"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        replay_log(RecordedLog(tmp_path))


def test_a_file_of_a_newer_release_is_told(tmp_path: Path) -> None:
    from cress.formats.framed import FileFormat

    path = tmp_path / "00000001.events"
    path.write_bytes(FileFormat("events", 9).first_line + b"whatever")
    with pytest.raises(InputError, match="was written by a newer release"):
        replay_log(RecordedLog(tmp_path))


def test_a_file_of_the_release_before_is_replayed(day: Path, tmp_path: Path) -> None:
    # Version 1 of event files: length, checksum and payload of each frame, without a first line.
    file = read(RecordedLog(day).paths[0])
    header = msgspec.msgpack.encode(file.header)
    payloads = [header, *(data for _, data in file.raw())]
    frames = (struct.pack("<II", len(one), zlib.crc32(one)) + one for one in payloads)
    (tmp_path / "00000001.events").write_bytes(b"".join(frames))
    found = replay_log(RecordedLog(tmp_path))
    assert found.difference is None
    assert found.records == len(payloads) - 1


def test_a_folder_without_a_log_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no event log"):
        RecordedLog(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        RecordedLog(tmp_path / "nowhere")


def test_a_missing_file_is_a_gap_and_the_rest_is_compared(tmp_path: Path) -> None:
    it = Recorder(tmp_path)
    for _ in range(3):
        it.submit(job(1, group="ads"))
        it.new_file()
    it.submit(job(1, group="ads"))
    folder = it.close()
    RecordedLog(folder).paths[1].unlink()
    found = replay_log(RecordedLog(folder))
    assert found.difference is None
    assert [str(gap).partition(" are in no file")[0] for gap in found.gaps] == ["records 4 to 4"]


def test_why_a_job_waited_then(tmp_path: Path) -> None:
    it = Recorder(tmp_path, nodes=1)
    (first,) = it.submit(job(1, cpus=4, group="ads", name="first", time_limit=100 * SECOND))
    (behind,) = it.submit(job(1, cpus=4, group="ads", name="behind"))
    waits = UTC + it.now
    it.end(first, after=20)
    log = RecordedLog(it.close())
    found = explained_at(log, "behind", waits)
    assert found.job == behind
    assert found.state == "1 tasks waited, 0 ran, 0 were over"
    assert found.reason
    assert explained_at(log, str(behind), UTC + it.now).reason == ""
    with pytest.raises(InputError, match="neither waited nor ran then"):
        explained_at(log, "77", waits)
    with pytest.raises(InputError, match="has no records before this moment"):
        explained_at(log, "1", UTC - 100 * SECOND)
