"""Ports of nodes: those of attempts, and those on which other programs listen.

A fixed port is never given twice on a node, whether the other use is fixed, dynamic or foreign. A dynamic port is the
lowest free one in the node's range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

DYNAMIC = 0


class PortTable:
    """The ports in use, per node index. Requested ports are numbers, or ``DYNAMIC`` for any."""

    def __init__(self) -> None:
        # The number of attempts with each port: normally one, but a task may be found running with the port of another.
        self._given: dict[int, dict[int, int]] = {}
        self._seen: dict[int, frozenset[int]] = {}
        # Per node the first and the last dynamic port; below, the number of free ones in that range.
        self._ranges: npt.NDArray[np.int64] = np.zeros((0, 2), np.int64)
        self._free: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    # --- ports in use ----------------------------------------------------------------------------------------

    def set_range(self, f: int, ports: tuple[int, int]) -> None:
        """Set the first and the last dynamic port of node ``f``; ports already given stay given."""
        if f >= len(self._free):
            more = max(16, f + 1 - len(self._free), len(self._free))
            self._ranges = np.concatenate([self._ranges, np.tile(np.array([1, 0], np.int64), (more, 1))])
            self._free = np.concatenate([self._free, np.zeros(more, np.int64)])
        self._ranges[f] = ports
        self._count(f)

    def see(self, f: int, ports: Iterable[int]) -> None:
        """Set the foreign ports of node ``f``."""
        self._seen[f] = frozenset(ports)
        self._count(f)

    def forget(self, f: int) -> None:
        """Drop the foreign ports of node ``f``, which is lost."""
        self._seen.pop(f, None)
        self._count(f)

    def _count(self, f: int) -> None:
        first, last = self._ranges[f].tolist()
        busy = {*self._given.get(f, ()), *self._seen.get(f, ())}
        self._free[f] = max(0, last - first + 1) - len([port for port in busy if first <= port <= last])

    def seen(self, f: int) -> tuple[int, ...]:
        """Return the foreign ports of node ``f``, ascending."""
        return tuple(sorted(self._seen.get(f, ())))

    def given(self, f: int) -> tuple[int, ...]:
        """Return the ports of node ``f`` that attempts have, ascending; a port of several attempts is repeated."""
        return tuple(sorted(port for port, times in self._given.get(f, {}).items() for _ in range(times)))

    # --- questions -----------------------------------------------------------------------------------------

    def is_free(self, f: int, port: int) -> bool:
        """Return True if the port is free."""
        return port not in self._given.get(f, ()) and port not in self._seen.get(f, ())

    def is_given(self, f: int, port: int) -> bool:
        """Return True if an attempt has the port."""
        return port in self._given.get(f, ())

    def taken(self, places: npt.NDArray[np.int64], port: int) -> npt.NDArray[np.bool_]:
        """Return, per node of ``places``, True if the port is in use."""
        return np.array([not self.is_free(f, port) for f in places.tolist()], np.bool_)

    def dynamic(self, places: npt.NDArray[np.int64], but: Sequence[int] = ()) -> npt.NDArray[np.int64]:
        """Return, per node of ``places``, the number of free dynamic ports not in ``but``."""
        free = self._free[places]
        for port in dict.fromkeys(but):
            inside = (self._ranges[places, 0] <= port) & (port <= self._ranges[places, 1])
            free -= inside & ~self.taken(places, port)
        return free

    def dynamic_when_empty(self, places: npt.NDArray[np.int64], but: Sequence[int] = ()) -> npt.NDArray[np.int64]:
        """Return that number for nodes without ports in use."""
        first, last = self._ranges[places, 0], self._ranges[places, 1]
        free: npt.NDArray[np.int64] = np.maximum(0, last - first + 1)
        for port in dict.fromkeys(but):
            free -= (first <= port) & (port <= last)
        return free

    # --- giving --------------------------------------------------------------------------------------------

    def choose(self, f: int, wanted: Sequence[int]) -> tuple[int, ...]:
        """Return ports for a task with this request, in the order of ``wanted``; node ``f`` must have them."""
        if not wanted:
            return ()
        fixed = [port for port in wanted if port != DYNAMIC]
        port, last = self._ranges[f].tolist()
        got = []
        for asked in wanted:
            if asked != DYNAMIC:
                got.append(asked)
                continue
            while port in fixed or not self.is_free(f, port):
                port += 1
            assert port <= last, f"node {f} has no dynamic port left"
            got.append(port)
            port += 1
        return tuple(got)

    def take(self, f: int, ports: Sequence[int]) -> None:
        """Give these ports of node ``f`` to an attempt."""
        if ports:
            given = self._given.setdefault(f, {})
            for port in set(ports):
                given[port] = given.get(port, 0) + 1
            self._count(f)

    def give_back(self, f: int, ports: Sequence[int]) -> None:
        """Return the ports of an ended attempt on node ``f``."""
        if ports:
            given = self._given[f]
            for port in set(ports):
                given[port] -= 1
                if not given[port]:
                    del given[port]
            if not given:
                del self._given[f]
            self._count(f)
