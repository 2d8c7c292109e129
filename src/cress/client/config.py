"""Discovery of the center: from the environment, or from the data directory of a center on this machine.

``CRESS_URL`` (one address, or several separated by commas) and ``CRESS_TOKEN`` name any center; ``CRESS_CA`` is the
file with the authority of its certificate, unless the system trusts it. ``CRESS_SOCKET`` is the socket of a center for
all accounts of this machine. Otherwise, or if a data directory is given, its files ``center.json``
(``{"url": …, "socket": …}``), ``token`` and ``ca.pem`` contain the address, the secret and the authority of its center.
Without such a directory the client uses a center at ``/run/cress/api.sock``, or the one of the last ``cress login``,
which also serves ``CRESS_URL`` without ``CRESS_TOKEN``.

A cluster of the user's configuration file (``config_file``) precedes all of these if ``cress -C NAME`` names it. The
cluster of ``CRESS_CLUSTER``, or the default of the file, follows ``CRESS_URL``, ``CRESS_SOCKET`` and ``CRESS_DATA``.
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
from cress.protocol.regular_files import read_regular

URL, TOKEN, DATA, SOCKET, CA = "CRESS_URL", "CRESS_TOKEN", "CRESS_DATA", "CRESS_SOCKET", "CRESS_CA"
# The variable that allows sending users' tokens over connections that others can read.
INSECURE = "CRESS_INSECURE"
# The default socket of a center for all accounts of this machine.
PUBLIC_SOCKET = Path("/run/cress/api.sock")
# The prefix of users' tokens; the secret of a data directory lacks it.
USER_TOKEN = "cress_"  # noqa: S105
# The prefix of job tokens, and the file with the center's authority among the secrets of a task with such a token.
JOB_TOKEN, SECRETS, TASK_CA = "cress_job_", "CRESS_SECRETS", "cress-ca.pem"
# Seconds for which each of several addresses is tried.
TRIAL_SECONDS = 1.0
CENTER_FILE, TOKEN_FILE, LOCK_FILE = "center.json", "token", "center.lock"
# The authority of the center's certificate: beside its address, or in the place of `cress tls init`.
CA_FILES = ("ca.pem", "tls/ca.pem")


# The cluster chosen for this process.
_chosen: list[str] = []


class NoCenter(Exception):
    """No center runs at the expected place; ``str()`` names the place, and how to start one."""


class Address(NamedTuple):
    """A center: its ``url``, its ``token``, its ``data`` directory if known, and its Unix ``socket`` there.

    ``ca`` is the file with the authority of its certificate; None if the system trusts it.
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
    """Return the data directory: ``data``, else ``$CRESS_DATA``, else the user's own."""
    named = data or os.environ.get(DATA, "")
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification says that a relative path is ignored.
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "cress"


def choose_cluster(name: str) -> None:
    """Use a cluster of the configuration file in this process, regardless of the environment."""
    _chosen[:] = [name]


def chosen_cluster() -> str:
    """Return the name of the cluster that ``choose_cluster`` has set, empty if none."""
    return _chosen[0] if _chosen else ""


def find_cluster() -> NamedCluster | None:
    """Return the chosen cluster of the configuration file; None if another center is chosen. Raises InputError."""
    if _chosen:
        return read_client_file().cluster(_chosen[0], "-C")
    if any(os.environ.get(variable) for variable in (URL, SOCKET, DATA)):
        return None
    file, named = read_client_file(), os.environ.get(CLUSTER, "")
    return file.cluster(named or file.default, CLUSTER) if named or file.default else None


def chosen_directory(data: Path | None = None) -> Path | None:
    """Return the data directory of the chosen center; ``None`` if it is chosen by an address only."""
    if data is not None:
        return data
    cluster = find_cluster()
    if cluster is not None:
        return cluster.data
    return None if os.environ.get(URL) or os.environ.get(SOCKET) else data_directory()


def find_center(data: Path | None = None) -> Address:
    """Return the address of the chosen center; its data directory ``data`` precedes the environment.

    Raises ``NoCenter``, and ``InputError`` if the name of the center is not valid.
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
        # The center itself has set the address for a job token.
        if token.startswith(USER_TOKEN) and not token.startswith(JOB_TOKEN):
            check_sent(url)
        return Address(url, check_token(token, TOKEN), ca=authority())
    public = os.environ.get(SOCKET, "") if data is None else ""
    if public:
        return _public(Path(public))
    chosen = data is not None or bool(os.environ.get(DATA))
    try:
        return _local(data_directory(data), chosen=chosen)
    except NoCenter:
        if not chosen and PUBLIC_SOCKET.is_socket():
            return _public(PUBLIC_SOCKET)
        login = None if chosen else find_login()
        if login is not None:
            return _signed_in(login)
        raise


def _local(folder: Path, *, chosen: bool = True) -> Address:
    """Return the center that runs on a data directory, ``chosen`` or the default one. Raises NoCenter."""
    url, socket = _read_place(folder, chosen=chosen)
    return Address(url, read_token(folder / TOKEN_FILE), folder, socket, authority(folder))


def _address_of(cluster: NamedCluster) -> Address:
    """Return the center of a cluster in the configuration file; the environment's token belongs to another center."""
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
    """Return the center at which the user has signed in."""
    if time.time() >= login.expires:
        raise InputError(f"the sign-in at {login.url} has expired", hint=f"cress login {login.url}")
    check_sent(login.url)
    return Address(login.url, login.token, ca=authority() or (Path(login.ca) if login.ca else None))


def _listening(urls: list[str]) -> str:
    """Return the first address with a listening center; of several centers, only the leader listens."""
    for url in urls[:-1]:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with suppress(OSError), create_connection((parts.hostname or "", port), TRIAL_SECONDS):
            return url
    return urls[-1]


def authority(folder: Path | None = None) -> Path | None:
    """Return the file with the authority of the center's certificate.

    It is ``$CRESS_CA``, else the one in the data directory ``folder``.
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
    """Return the center at a socket for all accounts, with the environment's token, if any."""
    if not path.is_socket():
        raise NoCenter(f"no center listens at {path} ({SOCKET})")
    token = os.environ.get(TOKEN, "").strip()
    return Address("http://localhost", check_token(token, TOKEN) if token else "", socket=path.absolute())


def address_again(find: Callable[[], Address] | None) -> Address | None:
    """Look up the center again with ``find``; ``None`` if there is none at the moment."""
    try:
        return find() if find is not None else None
    except (NoCenter, InputError):
        return None


def check_url(url: str, where: str) -> str:
    """Return ``url`` without a final slash. Raises ``InputError`` if it is not the URL of a center."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(f"{url!r} is not an address of a center", hint="such as http://127.0.0.1:8520", field=where)
    return url.rstrip("/")


def check_token(token: str, where: str) -> str:
    """Return ``token`` unchanged. Raises ``InputError`` if it does not have the form of a token."""
    if token.startswith(JOIN_TOKEN):
        raise InputError("is a join token", hint="`cress join` takes it; the API is for tokens of users", field=where)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InputError("is not a token", hint="letters and digits without spaces", field=where)
    return token


def read_token(path: Path) -> str:
    """Return the token in the file at ``path``. Raises ``InputError`` if it is unreadable, or readable by others."""
    try:
        mode = path.stat().st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InputError(f"other users may read or change the token {path}", hint=f"chmod 600 {path}")
        token = read_regular(path).decode().strip()
    except OSError as error:
        raise InputError(f"the token {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not token:
        raise InputError(f"there is no token in {path}")
    return check_token(token, str(path))


def _read_place(folder: Path, *, chosen: bool) -> tuple[str, Path | None]:
    path = folder / CENTER_FILE
    try:
        text = read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        raise NoCenter(missing(folder, chosen=chosen)) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    try:
        place = msgspec.json.decode(text, type=_CenterFile)
    except msgspec.DecodeError:
        raise InputError(
            f"{path} does not say where the center is", hint="the center writes a new one when it starts"
        ) from None
    # Only a name is allowed, since files outside the directory do not belong to its owner.
    name = Path(place.socket).name
    return check_url(place.url, str(path)), folder.absolute() / name if name else None


def _is_locked(path: Path) -> bool:
    """Return True if a process holds a lock on a file. To try it would be in the way of a center that starts."""
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            found = f" {_device(file)}:{os.fstat(file).st_ino} "
        finally:
            os.close(file)
        return any(" FLOCK " in line and found in line for line in Path("/proc/locks").read_text().splitlines())
    except OSError:
        return False


def _device(file: int) -> str:
    """Return the device of an open file as /proc/locks has it. That of `stat` differs on file systems such as Btrfs."""
    facts = dict(line.partition(":\t")[::2] for line in Path(f"/proc/self/fdinfo/{file}").read_text().splitlines())
    for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        mount, _, device, *_ = line.split()
        if mount == facts.get("mnt_id"):
            major, _, minor = device.partition(":")
            return f"{int(major):02x}:{int(minor):02x}"
    return ""


def missing(folder: Path, *, chosen: bool) -> str:
    """Return the message for a data directory, ``chosen`` or the default one, without a running center."""
    if _is_locked(folder / LOCK_FILE):
        return f"the center on {folder} is starting or stopping (try again in a moment)"
    if os.environ.get("CRESS_ATTEMPT") and not chosen:
        return "this task has no access to the center (`job_token: true` in its job file: docs/users.md#tokens-of-jobs)"
    return f"no center runs on {folder} (start one with `cress up --data {folder}`)"
