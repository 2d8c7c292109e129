"""The guard of a process that connects to addresses of users: only to those that the operator's rules allow.

Every connection of Python's sockets is checked at the moment it is made, with the address that the kernel gets. So
neither a redirect nor a changed name leads to a forbidden address, whatever library follows it. The guard stays for the
life of the process.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from cress.model.allowed_sources import (
    ANY,
    Address,
    AllowedSources,
    Network,
    embedded,
    parse_address,
    parse_host_rule,
    plain,
    protection,
)

# The option with the rules for files. Each refusal ends with the option: a library error that contains it is final.
OPTION = "(--allow-host)"
# Most addresses whose names are kept: users choose names, and one domain can have any number of them.
MOST_NAMES = 10_000
# Most names that are kept of one address.
MOST_OF_ADDRESS = 100
_EVENTS = frozenset(("socket.connect", "socket.sendto", "socket.sendmsg"))


class RefusedError(PermissionError):
    """Error: the rules do not allow this connection."""


def refusal_in(error: BaseException | None, option: str) -> str:
    """Return the refusal from which an error came, of a guard with this ``option``; empty if there is none."""
    while error is not None:
        # A library may keep the text alone.
        if isinstance(error, RefusedError) or option in str(error):
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


class ConnectionGuard:
    """The rules, and the names that were resolved to addresses. ``option`` stands at the end of each refusal."""

    def __init__(self, allowed: AllowedSources, option: str = OPTION) -> None:
        self._allowed = allowed
        self._option = option
        self._rules = tuple(map(parse_host_rule, allowed.hosts))
        self._names: dict[str, set[str]] = {}  # those of the latest addresses
        self._noting = threading.Lock()
        self._resolve = socket.getaddrinfo
        self._quiet = threading.local()

    def install(self) -> None:
        """Check every connection of this process from now on."""
        sys.addaudithook(self._look)
        socket.getaddrinfo = self._resolved

    def check(self, host: str, port: int) -> None:
        """Raise RefusedError unless a connection to this address is allowed."""
        address = parse_address(host)
        if address is None:
            # The address is unresolved, or written in a form that only the system's library can read.
            raise RefusedError(f"{host} is not an address {self._option}")
        names = self._names.get(str(address), set())
        if any(rule.holds(address, port) for rule in self._rules):
            return
        what = protection(address) or self._place(address)
        shown = min(names, default="")
        if what:
            raise RefusedError(
                f"{f'{shown} leads to' if shown else f'{host} is'} {what}, which jobs may not use {self._option}"
            )
        if any(rule.name == ANY and rule.allows(ANY, port) for rule in self._rules):
            return
        if not any(rule.allows(name, port) for name in names for rule in self._rules):
            raise RefusedError(f"{shown or host}:{port} is not among the hosts that jobs may use {self._option}")

    def allows_scheme(self, scheme: str) -> bool:
        """Return whether jobs may name addresses with this scheme."""
        return scheme in self._allowed.schemes

    def allowed_addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host to which a connection is allowed. Raise OSError; RefusedError if none is."""
        allowed: list[str] = []
        refused: RefusedError | None = None
        for entry in self._resolved(host, port, type=socket.SOCK_STREAM):
            try:
                self.check(str(entry[4][0]), port)
                allowed.append(str(entry[4][0]))
            except RefusedError as error:
                refused = error
        if not allowed and refused is not None:
            raise refused
        return list(dict.fromkeys(allowed))

    def _place(self, address: Address) -> str:
        for place in (address, *embedded(address)):
            if any(place in network for network in self._own):
                return "an address of this node"
            if str(place) in self._center:
                return "the address of the center"
        return ""

    @functools.cached_property
    def _own(self) -> list[Network]:
        return own_networks()

    @functools.cached_property
    def _center(self) -> frozenset[str]:
        """Return the addresses of the centers' hosts."""
        known: set[str] = set()
        for host in filter(None, self._allowed.center.split(",")):
            with contextlib.suppress(OSError, UnicodeError):
                found = self._resolve(host, None, type=socket.SOCK_STREAM)
                known.update(str(address) for entry in found if (address := parse_address(str(entry[4][0]))))
        return frozenset(known)

    def _resolved(self, host: Any, *arguments: Any, **more: Any) -> Any:
        """Resolve a name as the library does, and note the name for each of its addresses."""
        found = self._resolve(host, *arguments, **more)
        name = (host.decode("ascii", "replace") if isinstance(host, bytes) else str(host or "")).lower().rstrip(".")
        if parse_address(name) is None:
            for entry in found:
                address = parse_address(str(entry[4][0]))
                if address is not None:
                    self._note(str(address), name)
        return found

    def _note(self, address: str, name: str) -> None:
        """Note a name of an address; it is used at once, for the connection that follows."""
        with self._noting:
            names = self._names.pop(address, set())
            # Behind one address there may be any number of names, too; the newest must be among them.
            self._names[address] = {name} if len(names) >= MOST_OF_ADDRESS else names | {name}
            if len(self._names) > MOST_NAMES:
                del self._names[next(iter(self._names))]

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        wire, target = arguments[0], arguments[-1]
        if target is None:  # a message on a connected socket
            return
        if wire.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(target, tuple):
            raise RefusedError(f"only connections over the internet protocol are made {self._option}")
        self.check(str(target[0]), int(target[1]))


def own_networks() -> list[Network]:
    """Return the addresses of this node, from the kernel."""
    found: list[Network] = []
    last = ""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/net/fib_trie").read_text().splitlines():
            words = line.split()
            if words[:1] == ["|--"]:
                last = words[1]
            elif words[-1:] == ["LOCAL"]:
                found.append(ipaddress.ip_network(f"{last}{words[0]}", strict=False))
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            address = plain(ipaddress.IPv6Address(int(line.split()[0], 16)))
            found.append(ipaddress.ip_network(address))
    return found
