"""Locations of data named in clauses (algorithms §8, DataLocality): nodes report paths, events locate the rest."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeAlias, TypeVar

from cress.language.addresses import Address, parse_address
from cress.language.columns import attributes_of
from cress.model.datanames import within
from cress.model.node import Node

# The share of the whole data, in thousandths.
WHOLE = 1000

Places: TypeAlias = tuple[tuple[str, int], ...]
# The form in which hosts are compared: an address as a number, because it has several spellings.
Host: TypeAlias = str | Address
_T = TypeVar("_T", bound=Hashable)


class DataOf(NamedTuple):
    """Data of this name, as an object that shapes watch for its location."""

    data: str


def is_local(data: str) -> bool:
    """Return True if the data is a path on nodes, which nodes report themselves; events locate other data."""
    return data.startswith("/")


def host(name: str) -> Host:
    """Return the host of this name or address."""
    return (parse_address(name) if "0" <= name[:1] <= "9" or ":" in name else None) or name.casefold()


def _bare(name: Host) -> str | None:
    """Return the host name without its domain; ``None`` for an address, or for a name without a domain."""
    label, dot, _ = name.partition(".") if isinstance(name, str) else ("", "", "")
    return label if label and dot else None


def hosts_of(node: Iterable[str]) -> tuple[Host, ...]:
    """Return the forms in which a node with these names is indexed.

    A name with a domain is also entered without it, a name without one also for any domain (``name.``).
    """
    names = dict.fromkeys(map(host, node))
    bare = {label for name in names if (label := _bare(name))}
    anywhere = [f"{name}." for name in names if isinstance(name, str) and "." not in name and name not in bare]
    return tuple(dict.fromkeys((*names, *sorted(bare), *anywhere)))


def spellings(name: str) -> tuple[Host, ...]:
    """Return the forms by which a host with this name is looked up: the name, and for any domain (``name.``) if it has
    one.
    """
    whole = host(name)
    label = _bare(whole)
    return (whole,) if label is None else (whole, f"{label}.")


class Locations:
    """Locations of data by name: hosts and their shares in thousandths, or the reason why they are unknown.

    ``wanted`` counts the live jobs that name the data in any clause.
    """

    def __init__(self) -> None:
        self.places: dict[str, Places] = {}
        self.problems: dict[str, str] = {}
        # The shares by host, in the form in which hosts are compared.
        self.shares: dict[str, dict[Host, int]] = {}
        self.wanted: dict[str, int] = {}
        # A counter of names added or removed, so that the resolver knows when to look again.
        self.stamp = 0
        # The host names of each node, and the nodes of each host name; likewise for paths.
        self.names: dict[int, tuple[Host, ...]] = {}
        self.nodes: dict[Host, dict[int, None]] = {}
        self._had: dict[int, tuple[str, ...]] = {}
        self._holders: dict[str, dict[int, None]] = {}

    def set_node(self, f: int, node: Node) -> None:
        """Set the names and paths of node ``f``."""
        has = attributes_of(node)
        names = (name for key in ("name", "hostname", "address") if isinstance(name := has.get(key), str))
        _put(f, hosts_of(names), self.names, self.nodes)
        _put(f, node.data, self._had, self._holders)

    def name(self, data: Iterable[str], change: int) -> None:
        """Count a live job that names this data (1), or one that no longer does (-1)."""
        for name in data:
            count = self.wanted.get(name, 0) + change
            self.stamp += count == change or not count
            if count:
                self.wanted[name] = count
            else:
                del self.wanted[name]

    def told(self, data: str, places: Places | None, problem: str) -> None:
        """Set the locations of this data, or the reason why they are unknown."""
        self.places.pop(data, None)
        self.shares.pop(data, None)
        self.problems.pop(data, None)
        if problem:
            self.problems[data] = problem
        elif places is not None:
            self.places[data] = places
            shares = self.shares[data] = {}
            for name, share in places:
                for spelling in spellings(name):
                    shares[spelling] = max(share, shares.get(spelling, 0))

    def holders(self, path: str) -> set[int]:
        """Return the nodes with the path or a folder above it."""
        return {f for folder in within(path) for f in self._holders.get(folder, ())}

    def export(self) -> list[tuple[str, Places | None, str]]:
        """Return the located data as arguments of ``told``."""
        problems = [(data, None, problem) for data, problem in self.problems.items()]
        return [*((data, places, "") for data, places in self.places.items()), *problems]


def _put(f: int, has: tuple[_T, ...], had: dict[int, tuple[_T, ...]], holders: dict[_T, dict[int, None]]) -> None:
    """Replace the entries of node ``f``."""
    if had.get(f, ()) == has:
        return
    for key in had.pop(f, ()):
        del holders[key][f]
        if not holders[key]:
            del holders[key]
    for key in has:
        holders.setdefault(key, {})[f] = None
    if has:
        had[f] = has
