"""Framed files: whatever is cut, flipped or half-written, each whole frame is read, and nothing else is."""

from __future__ import annotations

import errno
import os
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cress.formats.framed import (
    BARE,
    CHAINED,
    MARK,
    MARKED,
    Beginning,
    FileDisk,
    FileFormat,
    Frame,
    FramedFile,
    FrameFormat,
    Older,
    framed,
    frames_of,
)

FORMAT = FileFormat("test", 4, (Older(3, b"test 3\n", 7, MARKED), Older(2, b"", 0, BARE)))
LINE = FORMAT.first_line
# Payloads that look like frames themselves are the hard ones.
PAYLOADS = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.builds(lambda text: MARK + text, st.binary(max_size=20)),
    st.sampled_from([MARK, MARK * 3, b"\0", bytes(30)]),
)
FILES = st.lists(PAYLOADS, max_size=6)


def bare(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "little") + zlib.crc32(payload).to_bytes(4, "little") + payload


def chained(payloads: list[bytes], check: int) -> bytes:
    """Frames as commit journals of version 1 had them, numbered from 1."""
    data = b""
    for number, payload in enumerate(payloads, 1):
        head = len(payload).to_bytes(4, "little") + number.to_bytes(8, "little")
        check = zlib.crc32(head + payload, check)
        data += head + check.to_bytes(4, "little") + payload
    return data


def file_of(payloads: list[bytes]) -> tuple[bytes, list[int]]:
    """A file of these payloads, and where its first line and each frame end."""
    data, ends = LINE, [len(LINE)]
    for payload in payloads:
        data += framed(payload)
        ends.append(len(data))
    return data, ends


def read(data: bytes) -> list[Frame]:
    return list(frames_of(data, FORMAT.beginning(BytesIO(data))))


def payloads_of(found: list[Frame]) -> list[bytes]:
    return [frame.payload for frame in found]


def has_gap(found: list[Frame], begin: int) -> bool:
    ends = [begin, *(frame.end for frame in found)]
    return any(frame.start > end for frame, end in zip(found, ends, strict=False))


@given(payloads=FILES, cut=st.integers(0, 10_000), zeros=st.integers(0, 40))
def test_a_file_that_is_cut_anywhere_has_the_frames_before_the_cut(payloads: list[bytes], cut: int, zeros: int) -> None:
    data, ends = file_of(payloads)
    cut = max(len(LINE), cut % (len(data) + 1))
    # Lost power may leave zeros where data should be; they may also be what was cut off.
    data = data[:cut] + bytes(zeros)
    whole = sum(end <= cut for end in ends[1:])
    found = read(data)
    assert payloads_of(found)[:whole] == payloads[:whole]
    assert not has_gap(found, len(LINE)) or MARK in b"".join(payloads)
    if len(found) > whole and not has_gap(found, len(LINE)):
        assert payloads_of(found) == payloads[: len(found)], "the zeros are what had been cut off"


@given(payloads=FILES.filter(bool), where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_its_frame_and_no_other(payloads: list[bytes], where: int, bit: int) -> None:
    data, ends = file_of(payloads)
    where = len(LINE) + where % (len(data) - len(LINE))
    flipped = bytearray(data)
    flipped[where] ^= 1 << bit
    hit = sum(end <= where for end in ends) - 1
    found = read(bytes(flipped))
    assert payloads_of(found) == [payload for number, payload in enumerate(payloads) if number != hit]
    assert has_gap(found, len(LINE)) is (hit < len(payloads) - 1)


@given(payloads=FILES.filter(bool), garbage=st.binary(min_size=1, max_size=30), at=st.integers(0, 6))
def test_what_comes_behind_garbage_is_read(payloads: list[bytes], garbage: bytes, at: int) -> None:
    _, ends = file_of(payloads)
    place = ends[at % len(payloads)]
    data = file_of(payloads)[0]
    found = read(data[:place] + garbage + data[place:])
    # Garbage that ends as a mark begins may swallow the mark behind it, as any damage may.
    assume(not any(garbage.endswith(MARK[:k]) for k in (1, 2, 3)) and MARK not in garbage)
    assert payloads_of(found) == payloads
    assert has_gap(found, len(LINE))


def test_a_mark_across_two_pieces_that_are_read_is_found() -> None:
    for distance in range(-4, 5):
        data = LINE + b"x" * (2**16 + distance) + framed(b"behind")
        assert payloads_of(read(data)) == [b"behind"]


# --- first lines and older files --------------------------------------------------------------------------------------


@given(payloads=FILES, where=st.integers(0, len(LINE) - 1), bit=st.integers(0, 7))
def test_a_damaged_first_line_is_no_version_and_no_newer_release(payloads: list[bytes], where: int, bit: int) -> None:
    format_ = FileFormat("test", 4)
    data = bytearray(file_of(payloads)[0])
    data[where] ^= 1 << bit
    beginning = format_.beginning(BytesIO(bytes(data)))
    assert beginning == Beginning(0)
    assert payloads_of(list(frames_of(bytes(data), beginning))) == payloads


@pytest.mark.parametrize(
    ("line", "version"),
    [
        (LINE, 4),
        (FileFormat("test", 12).first_line, 12),
        (b"test 3\n" + framed(b"one"), 3),
        (bare(b"one"), 2),
        (FileFormat("other", 4).first_line, 2),
        (b"", 2),
    ],
    ids=["of today", "of a newer release", "with a first line of old", "without one", "of another file", "empty"],
)
def test_the_version_is_that_of_the_first_line(line: bytes, version: int) -> None:
    assert FORMAT.beginning(BytesIO(line)).version == version


@given(payloads=FILES.filter(bool), cut=st.integers(0, 10_000), where=st.integers(0, 10_000))
def test_frames_without_marks_are_read_up_to_a_cut_and_behind_damage(
    payloads: list[bytes], cut: int, where: int
) -> None:
    data = b"".join(map(bare, payloads))
    ends = [sum(len(bare(each)) for each in payloads[: n + 1]) for n in range(len(payloads))]
    cut %= len(data) + 1
    beginning = Beginning(2, 0, BARE)
    assert payloads_of(list(frames_of(data[:cut], beginning))) == payloads[: sum(end <= cut for end in ends)]
    # Damage in a payload: the length still leads to the frame behind it.
    hit = where % len(payloads)
    flipped = bytearray(data)
    flipped[ends[hit] - 1] ^= 1
    expected = payloads[:hit] + payloads[hit + 1 :]
    assert payloads_of(list(frames_of(bytes(flipped), beginning))) == expected


@given(payloads=FILES.filter(bool), where=st.integers(0, 10_000), bit=st.integers(0, 7), seed=st.integers(0, 2**32 - 1))
def test_chained_frames_end_at_the_first_damage(payloads: list[bytes], where: int, bit: int, seed: int) -> None:
    data = chained(payloads, seed)
    beginning = Beginning(1, 0, CHAINED, seed)
    numbered = [number.to_bytes(8, "little") + payload for number, payload in enumerate(payloads, 1)]
    assert payloads_of(list(frames_of(data, beginning))) == numbered
    flipped = bytearray(data)
    where %= len(data)
    flipped[where] ^= 1 << bit
    before = sum(len(chained(payloads[:n], seed)) <= where for n in range(1, len(payloads) + 1))
    assert payloads_of(list(frames_of(bytes(flipped), beginning))) == numbered[:before]


def test_zeros_are_no_frames_in_any_layout() -> None:
    for layout in (MARKED, BARE, CHAINED, FrameFormat()):
        assert list(frames_of(bytes(100), Beginning(1, 0, layout))) == []
        assert list(frames_of(MARK + bytes(100), Beginning(1, 0, layout))) == []


# --- writing ----------------------------------------------------------------------------------------------------------


class FullDisk(FileDisk):
    """A disk with room for so many bytes more."""

    room = 10**6

    def write(self, fd: int, data: bytes | memoryview) -> None:
        """Write what there is room for."""
        part = bytes(data[: self.room])
        self.room -= len(part)
        super().write(fd, part)
        if len(part) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@given(written=st.lists(st.tuples(st.lists(PAYLOADS, min_size=1, max_size=3), st.integers(0, 60)), max_size=6))
def test_what_a_full_disk_left_half_written_is_cut_off(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[list[bytes], int]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "full"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    disk = FullDisk()
    file = FramedFile(fd, disk)
    file.write(LINE)
    kept: list[bytes] = []
    for payloads, room in written:
        disk.room = room
        try:
            file.append(*payloads)
        except OSError:
            assert sum(len(framed(each)) for each in payloads) > room
        else:
            kept += payloads
        assert path.stat().st_size == file.end
    disk.room = 10**6
    file.append_pieces(b"in ", b"pieces")
    os.close(fd)
    found = read(path.read_bytes())
    assert payloads_of(found) == [*kept, b"in pieces"]
    assert not has_gap(found, len(LINE))


def test_where_nothing_can_be_cut_off_the_next_frame_is_written_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    disk = FullDisk()
    file = FramedFile(fd, disk)
    file.write(LINE)

    def refused(*_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refused)
        disk.room = 9
        with pytest.raises(OSError, match="No space left"):
            file.append(b"lost")
    disk.room = 10**6
    file.append(b"kept")
    os.close(fd)
    assert path.read_bytes().startswith(LINE + framed(b"kept"))
    assert payloads_of(read(path.read_bytes())) == [b"kept"]


def test_a_file_goes_on_behind_what_was_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    data, _ = file_of([b"one", b"two"])
    path.write_bytes(data[:-1])
    (one,) = read(path.read_bytes())
    fd = os.open(path, os.O_RDWR)
    file = FramedFile(fd)
    file.cut(one.end)
    file.append(b"three")
    os.close(fd)
    assert path.read_bytes() == file_of([b"one", b"three"])[0]
