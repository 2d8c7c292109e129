"""Discovery of the center: from the environment, or from the data directory of a center on this machine.

``CRESS_URL`` (or several addresses, separated by commas) and ``CRESS_TOKEN`` name a center anywhere, ``CRESS_CA`` the
file with the authority of its certificate, unless that is one of those that the system trusts; ``CRESS_SOCKET`` the
socket of one for all accounts of this machine. Without them, and whenever a data directory is asked for, its files
``center.json`` (``{"url": …, "socket": …}``), ``token`` and ``ca.pem`` say where its center listens, what opens it and
how it is known. Without such a directory a center at ``/run/cress/api.sock`` is meant, or that of the last ``cress
login``, which also serves ``CRESS_URL`` without ``CRESS_TOKEN``.

A cluster of the user's configuration file (``config_file``) comes before all of these if ``cress -C NAME`` names it;
that of ``CRESS_CLUSTER``, or the default of the file, comes after ``CRESS_URL``, ``CRESS_SOCKET`` and ``CRESS_DATA``.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from socket import create_connection
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from cress.client.config_file import CLUSTER, NamedCluster, read_client_file
from cress.client.logins import Login, find_login
from cress.model.errors import InputError
from cress.protocol.join_tokens import PREFIX as JOIN_TOKEN

URL, TOKEN, DATA, SOCKET, CA = "CRESS_URL", "CRESS_TOKEN", "CRESS_DATA", "CRESS_SOCKET", "CRESS_CA"
# Whoever sets it sends user's tokens over connections that others can read.
INSECURE = "CRESS_INSECURE"
# The socket of a center for all accounts of this machine, if it is told nothing else.
PUBLIC_SOCKET = Path("/run/cress/api.sock")
# The beginning of the tokens of users; the secret of a data directory has no such beginning.
USER_TOKEN = "cress_"  # noqa: S105
# Tokens of jobs, and the file with the authority of the center among the secrets of a task that has one.
JOB_TOKEN, SECRETS, TASK_CA = "cress_job_", "CRESS_SECRETS", "cress-ca.pem"
# How long an address is tried, if there are several.
TRIAL_SECONDS = 1.0
CENTER_FILE, TOKEN_FILE = "center.json", "token"
# The authority of the center's certificate: beside its address, or where `cress tls init` has made it.
CA_FILES = ("ca.pem", "tls/ca.pem")


# The cluster that this process was told to use.
_chosen: list[str] = []


class NoCenter(Exception):
    """No center runs where one was looked for; ``str()`` says where, and how to start one."""


class Address(NamedTuple):
    """A center: its ``url``, its ``token``, its ``data`` directory when that is known, and its Unix ``socket`` there.

    ``ca`` is the file with the authority of its certificate; None: one that the system trusts.
    """

    url: str
    token: str
    data: Path | None = None
    socket: Path | None = None
    ca: Path | None = None


class _CenterFile(msgspec.Struct):
    url: str
    socket: str = ""


def data_directory(data: Path | None = None) -> Path:
    """The data directory that is meant: ``data``, else ``$CRESS_DATA``, else the user's own."""
    named = data or os.environ.get(DATA, "")
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_DATA_HOME", "")
    # The specification of XDG wants a path that is not absolute to be ignored.
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "cress"


def choose_cluster(name: str) -> None:
    """Use a cluster of the configuration file in this process, whatever the environment says."""
    _chosen[:] = [name]


def find_cluster() -> NamedCluster | None:
    """Return the cluster of the configuration file that is meant, None if another center is. Raises InputError."""
    if _chosen:
        return read_client_file().cluster(_chosen[0], "-C")
    if any(os.environ.get(variable) for variable in (URL, SOCKET, DATA)):
        return None
    file, named = read_client_file(), os.environ.get(CLUSTER, "")
    return file.cluster(named or file.default, CLUSTER) if named or file.default else None


def find_center(data: Path | None = None) -> Address:
    """The center to speak to; ``data`` names its data directory and comes before the environment.

    Raises ``NoCenter``, and ``InputError`` when what names the center is itself wrong.
    """
    cluster = find_cluster() if data is None else None
    if cluster is not None:
        return _address_of(cluster)
    if data is None and os.environ.get(URL):
        token = os.environ.get(TOKEN, "").strip()
        url = _listening([check_url(listed.strip(), URL) for listed in os.environ[URL].split(",")])
        if not token:
            login = find_login(url)
            if login is not None:
                return _signed_in(login)
            hint = f"`cress login`, or set {TOKEN} to the token, the contents of the center's file"
            raise InputError(f"{URL} is set and {TOKEN} is not", hint=hint)
        # Of the token of a job the center has said where it goes.
        if token.startswith(USER_TOKEN) and not token.startswith(JOB_TOKEN):
            check_sent(url)
        return Address(url, check_token(token, TOKEN), ca=authority())
    public = os.environ.get(SOCKET, "") if data is None else ""
    if public:
        return _public(Path(public))
    folder = data_directory(data)
    try:
        return _local(folder)
    except NoCenter:
        if data is None and not os.environ.get(DATA) and PUBLIC_SOCKET.is_socket():
            return _public(PUBLIC_SOCKET)
        login = find_login() if data is None and not os.environ.get(DATA) else None
        if login is not None:
            return _signed_in(login)
        raise


def _local(folder: Path) -> Address:
    """The center that runs on a data directory. Raises NoCenter."""
    url, socket = _read_place(folder)
    return Address(url, read_token(folder / TOKEN_FILE), folder, socket, authority(folder))


def _address_of(cluster: NamedCluster) -> Address:
    """The center of a cluster of the configuration file; the token of the environment belongs to another one."""
    where = f"clusters.{cluster.name}"
    if cluster.data is not None:
        return _local(cluster.data)
    token = read_token(cluster.token_file) if cluster.token_file is not None else ""
    if cluster.socket is not None:
        if not cluster.socket.is_socket():
            raise NoCenter(f"no center listens at {cluster.socket} ({where}.socket)")
        return Address("http://localhost", token, socket=cluster.socket.absolute())
    urls = [check_url(listed, f"{where}.url") for listed in cluster.url]
    if token:
        url = _listening(urls)
        if token.startswith(USER_TOKEN):
            check_sent(url, f"{where}.url")
        return Address(url, token, ca=cluster.ca or authority())
    login = next(filter(None, map(find_login, urls)), None)
    if login is None:
        hint = f"`cress login {urls[0]}`, or token-file in [{where}]"
        raise InputError("has no token-file, and you are not signed in there", hint=hint, field=where)
    signed_in = _signed_in(login)
    return signed_in._replace(url=_listening(urls), ca=cluster.ca or signed_in.ca)


def check_sent(url: str, where: str = URL) -> None:
    """Raise InputError if a user's token would travel to ``url`` unencrypted."""
    if not url.startswith("https:") and not os.environ.get(INSECURE):
        raise InputError(
            f"the token would travel to {url} unencrypted",
            hint=(
                f"https://…, the socket of a center on this machine ({SOCKET}), or {INSECURE}=1 if nobody else "
                "can read the connection"
            ),
            field=where,
        )


def _signed_in(login: Login) -> Address:
    """The center at which the user has signed in."""
    if time.time() >= login.expires:
        raise InputError(f"the sign-in at {login.url} has expired", hint=f"cress login {login.url}")
    check_sent(login.url)
    return Address(login.url, login.token, ca=authority() or (Path(login.ca) if login.ca else None))


def _listening(urls: list[str]) -> str:
    """The first of these addresses where somebody listens: of several centers, only the leader does."""
    for url in urls[:-1]:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with suppress(OSError), create_connection((parts.hostname or "", port), TRIAL_SECONDS):
            return url
    return urls[-1]


def authority(folder: Path | None = None) -> Path | None:
    """The file with the authority of the center's certificate: ``$CRESS_CA``, else that in the data directory
    ``folder``.
    """
    named = os.environ.get(CA, "")
    if named:
        return Path(named).expanduser()
    places: tuple[Path, ...] = ()
    if folder is not None:
        places = tuple(folder / name for name in CA_FILES)
    elif os.environ.get(SECRETS) and os.environ.get(TOKEN, "").startswith(JOB_TOKEN):
        places = (Path(os.environ[SECRETS], TASK_CA),)
    return next((place for place in places if place.exists()), None)


def _public(path: Path) -> Address:
    """The center that listens at a socket for all accounts; with a token, if the environment has one."""
    if not path.is_socket():
        raise NoCenter(f"no center listens at {path} ({SOCKET})")
    token = os.environ.get(TOKEN, "").strip()
    return Address("http://localhost", check_token(token, TOKEN) if token else "", socket=path.absolute())


def address_again(find: Callable[[], Address] | None) -> Address | None:
    """Look up the center again with ``find``; ``None`` if that finds no center at the moment."""
    try:
        return find() if find is not None else None
    except (NoCenter, InputError):
        return None


def check_url(url: str, where: str) -> str:
    """``url`` without a slash at its end. Raises ``InputError`` when it is not one of a center."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(f"{url!r} is not an address of a center", hint="such as http://127.0.0.1:8520", field=where)
    return url.rstrip("/")


def check_token(token: str, where: str) -> str:
    """``token`` as it is. Raises ``InputError`` when no token looks like that."""
    if token.startswith(JOIN_TOKEN):
        raise InputError("is a join token", hint="`cress join` takes it; the API is for tokens of users", field=where)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InputError("is not a token", hint="letters and digits without spaces", field=where)
    return token


def read_token(path: Path) -> str:
    """The token in the file at ``path``. Raises ``InputError`` when it cannot be read, or others can read it."""
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InputError(f"other users may read or change the token {path}", hint=f"chmod 600 {path}")
        token = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"the token {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not token:
        raise InputError(f"there is no token in {path}")
    return check_token(token, str(path))


def _read_place(folder: Path) -> tuple[str, Path | None]:
    path = folder / CENTER_FILE
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NoCenter(missing(folder)) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    try:
        place = msgspec.json.decode(text, type=_CenterFile)
    except msgspec.DecodeError:
        raise InputError(
            f"{path} does not say where the center is", hint="the center writes a new one when it starts"
        ) from None
    # Only a name: what is not in the directory does not belong to its owner.
    name = Path(place.socket).name
    return check_url(place.url, str(path)), folder.absolute() / name if name else None


def missing(folder: Path) -> str:
    """The sentence for a data directory without a running center."""
    return f"no center runs on {folder} (start one with `cress up --data {folder}`)"
