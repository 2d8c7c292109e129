"""Answers of WebHDFS, and the shares of data computed from them (hadoop.apache.org, WebHDFS REST API)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, TypeAlias

import msgspec

# Most hosts that are reported; those with the largest shares are kept.
MOST_PLACES = 2_000
WHOLE = 1000

Places: TypeAlias = tuple[tuple[str, int], ...]
_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_HOST = re.compile(r"[A-Za-z0-9_.:-]{1,253}")


class Status(msgspec.Struct, frozen=True):
    """A file or folder; ``pathSuffix`` is its name in the folder that was listed."""

    type: str
    length: _Size = 0
    pathSuffix: str = ""  # noqa: N815


class FileStatus(msgspec.Struct, frozen=True):
    """Answer to GETFILESTATUS."""

    FileStatus: Status


class _Listed(msgspec.Struct, frozen=True):
    FileStatus: list[Status]


class FileStatuses(msgspec.Struct, frozen=True):
    """Answer to LISTSTATUS."""

    FileStatuses: _Listed


class _HdfsBlock(msgspec.Struct, frozen=True):
    length: _Size
    hosts: list[str] = []
    names: list[str] = []


class _Blocks(msgspec.Struct, frozen=True):
    BlockLocation: list[_HdfsBlock] = []


class _Extent(msgspec.Struct, frozen=True):
    numBytes: _Size  # noqa: N815


class _Replica(msgspec.Struct, frozen=True):
    hostName: str = ""  # noqa: N815
    ipAddr: str = ""  # noqa: N815
    name: str = ""


class _Located(msgspec.Struct, frozen=True):
    block: _Extent
    locations: list[_Replica] = []


class _OldBlocks(msgspec.Struct, frozen=True):
    locatedBlocks: list[_Located] = []  # noqa: N815


class BlockLocations(msgspec.Struct, frozen=True):
    """Answer to GETFILEBLOCKLOCATIONS, or to GET_BLOCK_LOCATIONS of older servers."""

    BlockLocations: _Blocks | None = None
    LocatedBlocks: _OldBlocks | None = None


class _Exception(msgspec.Struct, frozen=True):
    exception: str = ""


class HttpErrorBody(msgspec.Struct, frozen=True):
    """The body of an HTTP error."""

    RemoteException: _Exception = _Exception()


def blocks_of(answer: BlockLocations) -> list[tuple[int, frozenset[str]]]:
    """Return for each block its bytes and its hosts, by name and address. Raises ValueError if the answer has none."""
    if answer.BlockLocations is not None:
        return [
            (block.length, _hosts((*block.hosts, *map(_address, block.names))))
            for block in answer.BlockLocations.BlockLocation
        ]
    if answer.LocatedBlocks is not None:
        return [
            (
                block.block.numBytes,
                _hosts(
                    name for one in block.locations for name in (one.hostName, one.ipAddr or _address(one.name)) if name
                ),
            )
            for block in answer.LocatedBlocks.locatedBlocks
        ]
    raise ValueError("the answer contains no blocks")


def shares(blocks: Iterable[tuple[int, frozenset[str]]]) -> Places:
    """Return each host's share of all bytes in thousandths, at least 1, largest first; empty without bytes."""
    total, held = 0, dict[str, int]()
    for length, hosts in blocks:
        total += length
        for host in hosts if length else ():
            held[host] = held.get(host, 0) + length
    best = sorted(held.items(), key=lambda entry: (-entry[1], entry[0]))[:MOST_PLACES]
    return tuple((host, max(1, WHOLE * size // total)) for host, size in best)


def _hosts(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names if _HOST.fullmatch(name))


def _address(name: str) -> str:
    """Return the host of an address: ``10.0.0.1`` of ``10.0.0.1:9866``, ``::1`` of ``[::1]:9866``."""
    return name.rpartition(":")[0].strip("[]") or name
