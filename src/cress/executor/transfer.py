"""Transfer of a task's input and output files: through fsspec, several at a time, each completely or not at all.

It runs in a separate process as the task's account, whose end also frees the memory of its many libraries.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from http import HTTPStatus
from pathlib import Path

import aiohttp
import fsspec
from fsspec.registry import known_implementations

from cress.executor import unpack
from cress.executor.addresses import (
    Failed,
    FileRoot,
    is_http,
    local_path,
    name_of,
    protocol,
    shown,
    with_variables,
    without_secrets,
)
from cress.executor.disk_room import larger_disk, take_large_part
from cress.executor.local_files import fetch_here, here, remove, save_here
from cress.executor.outputs import OutputFile, find_outputs
from cress.executor.source_rules import SourceRules, schemes_of
from cress.executor.unpack import merge
from cress.model.reports import Cause
from cress.model.run import File
from cress.model.uploads import digest_in
from cress.network.connection_guard import OPTION, RefusedError
from cress.shell.executor.starting import StageFailure

NO_INPUTS: Mapping[str, int] = {}
AT_ONCE = 4
TRIES = 5
# Seconds before the second try, doubled for each further one.
BACKOFF = 0.5
# Seconds: the timeout of a connection attempt, and between two bytes.
SILENCE = 60.0
# Temporary errors of servers (RFC 9110 §15, RFC 6585).
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
# Errors that would recur.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError, ValueError, TypeError)

_REFUSED = re.compile(r"\S+ (?:is|leads to) [^,:]+, which jobs may not use " + re.escape(OPTION))

# Python packages for protocols that fsspec itself does not implement.
_PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs",
    "hdfs": "pyarrow", "sftp": "paramiko", "ssh": "paramiko", "smb": "smbprotocol", "hf": "huggingface_hub",
}  # fmt: skip


class HttpError(Exception):
    """Error: a server refused a file."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def load(files: Sequence[File], rules: SourceRules) -> None:
    """Import the libraries for these addresses before this process changes to an account that may not read them."""
    for name in {name for file in files for name in schemes_of(file.source)} - {"file"}:
        if not rules.allow(name):
            continue
        try:
            fsspec.get_filesystem_class(name)
        except (ImportError, ValueError):
            continue  # reported when it is needed
    "".encode("idna")
    if any(file.unpack for file in files):
        unpack.prepare()


def bring(
    files: Sequence[File],
    root: FileRoot,
    variables: Mapping[str, str],
    rules: SourceRules,
    inputs: Mapping[str, int] = NO_INPUTS,
) -> StageFailure | None:
    """Fetch all files; ``inputs`` are open descriptors of uploads by digest. Return the failure, if any."""

    def one(file: File) -> None:
        path = with_variables(file.path, variables)
        try:
            bring_one(file, path)
        except Failed as error:
            if error.node and (root.base / path).is_absolute():
                # The job has chosen the place that has no room.
                raise Failed(str(error)) from None
            raise

    def bring_one(file: File, path: str) -> None:
        fd = inputs.get(digest_in(file.source), -1)
        if fd >= 0:
            _bring(lambda new: copy_open(fd, new), "", path, file, root)
        elif not file.source:
            _bring(lambda new: write_text(file.text, new), "", path, file, root)
        else:
            source = with_variables(file.source, variables)
            rules.check(source)
            place = path + name_of(source) if path.endswith("/") and not file.unpack else path
            _bring(lambda new: _fetch(source, new, rules), source, place, file, root)

    return _all(files, one, _fetching, Cause.FILES)


def _fetching(file: File) -> str:
    return f"{file.path} could not be " + (f"fetched from {shown(file.source)}" if file.source else "written")


def save(
    outputs: Sequence[File], root: FileRoot, variables: Mapping[str, str], rules: SourceRules
) -> StageFailure | None:
    """Save all outputs. Return the failure, if any."""

    def one(file: File) -> None:
        address, path = with_variables(file.source, variables), with_variables(file.path, variables)
        rules.check(address)
        for output in find_outputs(path, address, root):
            try:
                _again(lambda output=output: _save(output, rules), output.address)  # type: ignore[misc]
            except Failed as error:
                raise Failed(f"{output.name}: {error}" if output.name != path else str(error)) from None

    return _all(outputs, one, lambda file: f"{file.path} could not be saved to {shown(file.source)}", Cause.OUTPUTS)


def copy_file(file: Path, address: str, rules: SourceRules) -> None:
    """Save one file at an address. Raise Failed."""
    rules.check(address)
    _again(lambda: _save(OutputFile(file.name, file, address), rules), address)


def _all(
    files: Sequence[File], one: Callable[[File], None], what: Callable[[File], str], cause: Cause
) -> StageFailure | None:
    """Call ``one`` for each file, ``AT_ONCE`` at a time, until one fails.

    Return the first failure in the order of the list, first of those that are not the fault of the node.
    """
    gave_up = threading.Event()

    def attempt(file: File) -> StageFailure | None:
        if gave_up.is_set():
            return None
        try:
            one(file)
        except Failed as error:
            gave_up.set()
            return StageFailure(Cause.NODE if error.node and cause is Cause.FILES else cause, f"{what(file)}: {error}")
        return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(attempt, file) for file in files]
        wait(futures, return_when=FIRST_EXCEPTION)
    wrong = [found for future in futures if (found := future.result())]
    return next((found for found in wrong if found.cause is not Cause.NODE), wrong[0] if wrong else None)


# --- one file ---------------------------------------------------------------------------------------------------------


def _bring(fetch: Callable[[Path], None], source: str, path: str, file: File, root: FileRoot) -> None:
    """Put a file where it belongs; ``fetch`` copies it from ``source`` to a new path."""
    place = root.place(path)
    root.check(place)
    new = place.parent / f".{place.name[:100]}.{threading.get_ident():x}.new"
    folder = new.with_suffix(".folder")
    try:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _again(lambda: fetch(new), source)
            if file.unpack:
                folder.mkdir()
                unpack.unpack(new, folder)
                merge(folder, place)
            elif new.is_dir():
                merge(new, place)
            else:
                if place.is_dir():
                    raise Failed(f"{path} is a folder")
                if file.mode:
                    new.chmod(file.mode & 0o777)
                new.replace(place)
        except OSError as error:
            raise here(error) from None
    except Failed as error:
        # As long as the files are there whose room is counted.
        if error.node and take_large_part(root.base):
            raise Failed(f"{error}: the files of the job itself take it ({larger_disk(root.base)})") from None
        raise
    finally:
        remove(new)
        remove(folder)


def copy_open(fd: int, new: Path) -> None:
    """Copy an open file to a new path. Raise OSError."""
    with new.open("wb") as target:
        offset = 0
        # Several threads may read from one descriptor, so its own position is not used.
        while data := os.pread(fd, 1 << 20, offset):
            target.write(data)
            offset += len(data)
    new.chmod(0o644)


def write_text(text: str, new: Path) -> None:
    """Write the text of a job file to a new path. Raise OSError."""
    new.write_bytes(text.encode(errors="surrogateescape"))
    new.chmod(0o644)


def _fetch(source: str, new: Path, rules: SourceRules) -> None:
    """Try once to copy from an address to a new path."""
    remove(new)
    local = local_path(source)
    if local is not None:
        fetch_here(local, new, rules)
        return
    fs, there = _filesystem(source)
    if is_http(source):
        fs.get_file(source, str(new))
        return
    if fs.isdir(there):
        fs.get(there.rstrip("/") + "/", str(new), recursive=True)
        return
    size = fs.info(there).get("size")
    fs.get_file(there, str(new))
    if size is not None and new.stat().st_size != size:
        raise ConnectionError(f"only {new.stat().st_size} of {size} bytes were received")


def _save(output: OutputFile, rules: SourceRules) -> None:
    """Try once to save a file at its address."""
    local = local_path(output.address)
    if local is not None:
        save_here(output.file, local, rules)
    elif is_http(output.address):
        asyncio.run(_put(output.file, output.address))
    else:
        fs, there = _filesystem(output.address)
        parent = there.rpartition("/")[0]
        if parent:
            fs.makedirs(parent, exist_ok=True)
        fs.put_file(str(output.file), there)


async def _put(file: Path, address: str) -> None:
    async with aiohttp.ClientSession(timeout=_timeout(), trust_env=True) as session:
        # An open file has a known length, which many stores require.
        with file.open("rb") as data:
            async with session.put(address, data=data) as answer:
                if answer.status >= 300:
                    raise HttpError(answer.status, answer.reason or "")


def _filesystem(address: str) -> tuple[fsspec.AbstractFileSystem, str]:
    try:
        if is_http(address):
            # Not a chain of addresses: an IPv6 address contains two colons, too.
            options = {"timeout": _timeout(), "trust_env": True}
            return fsspec.filesystem("http", client_kwargs=options), address
        fs, there = fsspec.core.url_to_fs(address)
    except ImportError as error:
        name = protocol(address)
        package = _PACKAGES.get(name)
        raise Failed(
            f"{name}:// needs the Python package {package}, which this node does not have"
            if package
            else f"{name}:// does not work on this node: {known_implementations.get(name, {}).get('err', error)}"
        ) from None
    except ValueError:
        raise Failed(f"{protocol(address)}:// is not a known protocol") from None
    return fs, there


def _timeout() -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=SILENCE, sock_read=SILENCE)


# --- errors -----------------------------------------------------------------------------------------------------------


def _again(work: Callable[[], None], address: str) -> None:
    """Do the work, and retry while another try may help."""
    for tried in range(1, TRIES + 1):
        try:
            work()
            return
        except Failed:
            raise
        except Exception as error:  # noqa: BLE001 - each library raises its own errors
            refusal = _refusal(error)
            final = refusal or protocol(address) == "file" or not _may_pass(error)
            if final or tried == TRIES:
                node = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
                why = without_secrets(refusal or _why(error, address), address)
                raise Failed(why + ("" if final else f" ({TRIES} tries)"), node=node) from None
        time.sleep(BACKOFF * 2 ** (tried - 1) * random.uniform(0.7, 1.0))  # noqa: S311


def _may_pass(error: Exception) -> bool:
    if isinstance(error, aiohttp.TooManyRedirects):
        return False
    status = getattr(error, "status", 0)
    if status:
        return status in _BUSY
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.RedirectClientError):
        return False
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENAMETOOLONG):
        return False
    return not isinstance(error, _FINAL)


def _refusal(error: BaseException) -> str:
    """Return the refusal of a connection that caused this error of a library; empty: none."""
    cause: BaseException | None = error
    for _ in range(10):
        if cause is None:
            break
        inner = getattr(cause, "os_error", cause)
        if isinstance(inner, RefusedError):
            return str(inner)
        cause = cause.__cause__ or cause.__context__
    # Several addresses of one name were tried; the library joins their errors into one text.
    found = _REFUSED.search(str(error))
    return found[0] if found else ""


def _why(error: Exception, address: str) -> str:
    if isinstance(error, aiohttp.TooManyRedirects):
        return "the server redirects too often"
    if isinstance(error, aiohttp.RedirectClientError):
        return "the server redirects to an address that is not HTTP"
    status = getattr(error, "status", 0)
    if status or (is_http(address) and isinstance(error, FileNotFoundError)):
        status = status or 404
        known = status in set(HTTPStatus)
        return (
            f"the server answers {status} {HTTPStatus(status).phrase if known else getattr(error, 'message', '')}"
        ).strip()
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "this node does not trust the server's certificate"
    if isinstance(error, aiohttp.InvalidURL):
        return "it is not an address"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"the server cannot be reached: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
        return "the server closed the connection"
    if isinstance(error, TimeoutError):
        return f"the server did not answer for {SILENCE:g} s"
    if isinstance(error, OSError) and error.strerror:
        return str(here(error))
    if isinstance(error, FileNotFoundError):
        return "it does not exist there"
    return str(error) or type(error).__name__
