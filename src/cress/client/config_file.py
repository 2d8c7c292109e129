"""The user's configuration file, ``cress/config.toml``: clusters by name, and the default one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from cress.model.errors import InputError, InputErrors
from cress.model.toml_text import TomlText, kind_of
from cress.model.units import closest, one_of

CLUSTER = "CRESS_CLUSTER"
# The keys of a cluster: its addresses, or a socket or data directory on this machine; its token file; its authority.
PLACES = ("url", "socket", "data")
KEYS = (*PLACES, "token-file", "ca")
MOST_BYTES = 2**20


class NamedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster in the file: addresses of its centers, or a socket or data directory on this machine."""

    name: str
    url: tuple[str, ...] = ()
    socket: Path | None = None
    data: Path | None = None
    token_file: Path | None = None
    ca: Path | None = None


class ClientFile(msgspec.Struct, frozen=True):
    """The contents of the file at ``path``; ``default`` is empty if there is none."""

    path: Path
    clusters: dict[str, NamedCluster]
    default: str = ""

    def cluster(self, name: str, where: str) -> NamedCluster:
        """Return the cluster ``name``, given in ``where``. Raises InputError."""
        if name not in self.clusters:
            hint = one_of(name, self.clusters) if self.clusters else f"[clusters.{name}] with url = … in {self.path}"
            raise InputError(f"{self.path} has no cluster {name!r}", hint=hint, field=where)
        return self.clusters[name]


def config_file() -> Path:
    """Return the path of the user's configuration file."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "cress" / "config.toml"


def read_client_file(path: Path | None = None) -> ClientFile:
    """Return the contents of the file; a missing file is empty unless it was named. Raises InputError."""
    place = path or config_file()
    try:
        data = place.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        if path is not None:
            raise InputError(f"cannot be read: {error.strerror}", file=str(place)) from None
        return ClientFile(place, {})
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(place)) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not a text", hint="TOML in UTF-8", file=str(place)) from None
    if len(data) > MOST_BYTES:
        raise InputError("is too large for a configuration", hint="at most 1 MB", file=str(place))
    return parse_client_file(TomlText(text, str(place)), place)


def parse_client_file(text: TomlText, path: Path) -> ClientFile:
    """Return the contents of a file. Raises InputErrors with all mistakes."""
    errors: list[InputError] = []
    clusters: dict[str, NamedCluster] = {}
    named = text.values.get("clusters", {})
    for key, value in text.values.items():
        if key not in ("clusters", "default"):
            near = closest(key, ("clusters", "default"))
            hint = f"did you mean {near}?" if near else "default, or a table [clusters.NAME]"
            errors.append(text.wrong(InputError("is not a key", hint=hint), key))
        elif key == "clusters" and not isinstance(value, dict):
            errors.append(text.wrong(InputError(f"is {kind_of(value)}", hint="a table [clusters.NAME] for each"), key))
    for name, table in named.items() if isinstance(named, dict) else ():
        try:
            clusters[name] = _cluster(name, table, text, path.absolute().parent)
        except InputError as error:
            errors.append(error)
    default = text.values.get("default", "")
    if not isinstance(default, str):
        errors.append(text.wrong(InputError(f"is {kind_of(default)}", hint="the name of a cluster"), "default"))
    elif default and isinstance(named, dict) and default not in named:
        hint = one_of(default, named) if named else f"a table [clusters.{default}] with url = …"
        errors.append(text.wrong(InputError(f"there is no cluster {default!r}", hint=hint), "default"))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return ClientFile(path, clusters, default)


def _cluster(name: str, table: Any, text: TomlText, folder: Path) -> NamedCluster:
    def wrong(what: str, hint: str, *keys: str) -> InputError:
        return text.wrong(InputError(what, hint=hint), "clusters", name, *keys)

    if not isinstance(table, dict):
        raise wrong(f"is {kind_of(table)}", f"a table [clusters.{name}] with url = …")
    values: dict[str, str] = {}
    for key, value in table.items():
        if key not in KEYS:
            near = closest(key.replace("_", "-"), KEYS)
            raise wrong("is not a key", f"did you mean {near}?" if near else ", ".join(KEYS), key)
        if key == "url" and isinstance(value, list) and all(isinstance(url, str) for url in value):
            value = ",".join(value)
        if not isinstance(value, str):
            raise wrong(f"is {kind_of(value)}", "a text", key)
        if value:
            values[key] = value
    given = [key for key in PLACES if key in values]
    if len(given) != 1:
        raise wrong(" and ".join(given) + " are given" if given else "has no place", "one of " + ", ".join(PLACES))
    if "data" in values and len(values) > 1:
        hint = "data alone: the directory has the token and the authority"
        raise wrong("cannot be combined with data", hint, next(key for key in values if key != "data"))
    urls = tuple(url.strip() for url in values.pop("url", "").split(",") if url.strip())
    paths = {key.replace("-", "_"): folder / Path(value).expanduser() for key, value in values.items()}
    return NamedCluster(name=name, url=urls, **paths)
