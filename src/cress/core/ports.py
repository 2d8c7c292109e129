"""Ports of the nodes: which were given to attempts, and on which strangers listen.

A fixed port is never given twice on a node, whether the other use is fixed, dynamic or a stranger's. A dynamic one is
the lowest of the node's range that nobody has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cress.model.node import DYNAMIC_PORTS

DYNAMIC = 0


class Ports:
    """Per node, by its index: the ports in use. What is wanted of a node are numbers, ``DYNAMIC`` for any."""

    def __init__(self) -> None:
        self._given: dict[int, set[int]] = {}
        self._seen: dict[int, frozenset[int]] = {}
        self._ranges: dict[int, tuple[int, int]] = {}

    # --- what is so ----------------------------------------------------------------------------------------

    def set_range(self, f: int, ports: tuple[int, int]) -> None:
        """The first and the last dynamic port of node ``f``; what was given before stays given."""
        self._ranges[f] = ports

    def see(self, f: int, ports: Iterable[int]) -> None:
        """All ports of node ``f`` that strangers listen on."""
        self._seen[f] = frozenset(ports)

    def forget(self, f: int) -> None:
        """Node ``f`` is lost: who listened there does no more."""
        self._seen.pop(f, None)

    def seen(self, f: int) -> tuple[int, ...]:
        """The ports of node ``f`` that strangers listen on, ascending."""
        return tuple(sorted(self._seen.get(f, ())))

    def given(self, f: int) -> tuple[int, ...]:
        """The ports of node ``f`` that were given to attempts, ascending."""
        return tuple(sorted(self._given.get(f, ())))

    # --- questions -----------------------------------------------------------------------------------------

    def is_free(self, f: int, port: int) -> bool:
        """Whether nobody has or hears this port."""
        return port not in self._given.get(f, ()) and port not in self._seen.get(f, ())

    def copies(self, f: int, wanted: Sequence[int], most: int) -> int:
        """How many tasks that want these ports node ``f`` takes, at most ``most``."""
        fixed = [port for port in wanted if port != DYNAMIC]
        if fixed:
            most = min(most, 1) if len(set(fixed)) == len(fixed) and all(self.is_free(f, p) for p in fixed) else 0
        dynamic = len(wanted) - len(fixed)
        return min(most, self._free_dynamic(f, fixed) // dynamic) if dynamic and most else most

    def copies_when_empty(self, f: int, wanted: Sequence[int], most: int) -> int:
        """The same for the node without any attempt or stranger."""
        empty = Ports()
        empty.set_range(f, self._range(f))
        return empty.copies(f, wanted, most)

    def _range(self, f: int) -> tuple[int, int]:
        return self._ranges.get(f, DYNAMIC_PORTS)

    def _free_dynamic(self, f: int, but: Sequence[int]) -> int:
        first, last = self._range(f)
        busy = {*self._given.get(f, ()), *self._seen.get(f, ()), *but}
        return max(0, last - first + 1) - len([port for port in busy if first <= port <= last])

    # --- giving --------------------------------------------------------------------------------------------

    def give(self, f: int, wanted: Sequence[int]) -> tuple[int, ...]:
        """Give a task the ports that it wants, which node ``f`` must have (``copies``); in the order of ``wanted``."""
        fixed = [port for port in wanted if port != DYNAMIC]
        first, last = self._range(f)
        got = []
        port = first
        for each in wanted:
            if each != DYNAMIC:
                got.append(each)
                continue
            while port in fixed or not self.is_free(f, port):
                port += 1
            assert port <= last, f"node {f} has no dynamic port left"
            got.append(port)
            port += 1
        self.take(f, got)
        return tuple(got)

    def take(self, f: int, ports: Iterable[int]) -> None:
        """These ports of node ``f`` are an attempt's from now on."""
        ports = set(ports)
        if ports:
            self._given.setdefault(f, set()).update(ports)

    def give_back(self, f: int, ports: Iterable[int]) -> None:
        """An attempt that had these ports of node ``f`` is over."""
        ports = set(ports)
        if ports:
            left = self._given[f] - ports
            if left:
                self._given[f] = left
            else:
                del self._given[f]
