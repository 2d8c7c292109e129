"""Namenodes: the WebHDFS addresses for the names that users write (docs/data.md)."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable
from typing import NamedTuple

from cress.model.datanames import SCHEMES, DataName
from cress.model.errors import InputError

# Ports of Hadoop 3 namenodes for HTTP and HTTPS.
HTTP_PORT, HTTPS_PORT = 9870, 9871
HINT = "nn:8020=http://nn:9870, or a name for several: logs=http://nn1:9870,http://nn2:9870"
# The word that allows all hosts, in place of a name with addresses.
ANY = "any"

_NAME = re.compile(r"[A-Za-z0-9_.:\[\]-]+")
_URL = re.compile(r"(https?)://(?:([A-Za-z0-9_.-]+)@)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?/?")


class Gateway(NamedTuple):
    """A WebHDFS server: its ``url`` without a path, and the ``user`` of the queries."""

    url: str
    user: str


class Namenodes:
    """The namenodes that the operator allows, ``NAME[:PORT]=URL[,URL]`` each, or ``any``.

    Users who submit jobs may name any host that the center can reach. Hosts that the operator did not name are
    queried only with the word ``any``. Raises InputError with the field --webhdfs.
    """

    def __init__(self, told: Iterable[str] = ()) -> None:
        self._told: dict[str, tuple[Gateway, ...]] = {}
        self._any = False
        for text in told:
            if text.strip() == ANY:
                self._any = True
                continue
            name, _, urls = text.partition("=")
            name = name.strip().lower()
            if not _NAME.fullmatch(name) or not urls.strip():
                raise InputError(f"{text!r} has no address of a namenode", hint=HINT, field="--webhdfs")
            if name in self._told:
                raise InputError(f"{name} is given twice", hint="each name once", field="--webhdfs")
            self._told[name] = tuple(_gateway(url.strip()) for url in urls.split(","))

    def of(self, data: DataName) -> tuple[Gateway, ...]:
        """Return the servers for this data, to be tried until one is active; empty if the operator names none."""
        told = self._told.get(data.place) or self._told.get(data.host)
        if told and data.scheme not in ("http", "https"):
            return told
        scheme = SCHEMES[data.scheme]
        port = data.port
        if data.scheme == "hdfs" or (not port and data.scheme in ("webhdfs", "swebhdfs")):
            # The port of an hdfs:// URL belongs to another protocol.
            port = HTTPS_PORT if scheme == "https" else HTTP_PORT
        url = f"{scheme}://{data.host}{f':{port}' if port else ''}"
        known = (
            known_gateway for gateways in self._told.values() for known_gateway in gateways if known_gateway.url == url
        )
        gateway = next(known, Gateway(url, myself()) if self._any else None)
        return () if gateway is None else (gateway,)

    def allow(self, url: str) -> bool:
        """Return whether a namenode may redirect to this URL, on a server that the operator names."""
        return self._any or any(
            url == gateway.url or url.startswith(f"{gateway.url}/") for told in self._told.values() for gateway in told
        )


def myself() -> str:
    """Return the account of the center's process."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _gateway(text: str) -> Gateway:
    found = _URL.fullmatch(text)
    if found is None or int(found[4] or 1) not in range(1, 65_536):
        raise InputError(f"{text!r} is not an address of WebHDFS", hint=HINT, field="--webhdfs")
    port = f":{found[4]}" if found[4] else ""
    return Gateway(f"{found[1]}://{found[3].lower()}{port}", found[2] or myself())
