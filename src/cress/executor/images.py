"""Images of containers on the node: pulled by skopeo, unpacked by umoci, kept by their digest.

Everything is in ``DIR/images``, which only the executor's account may enter. ``ID/rootfs`` is the root file system of
an image, ``ID/image.json`` says how its program starts. A stage holds ``ID/lock`` as long as it runs, so that an image
in use is not removed. ``ID/readers`` has a file for each user to whom the registry has given the image, or one for
everybody: a digest alone opens nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from cress.executor.addresses import Failed
from cress.executor.disk_room import larger_disk, took_large_part
from cress.executor.disk_turns import alone, opened_turn
from cress.executor.folder import named, remove
from cress.executor.inputs import FOLDER as INPUTS
from cress.executor.runtimes import linux
from cress.model.allowed_sources import AllowedSources, parse_address
from cress.model.archives import archive_in
from cress.network.connection_guard import ConnectionGuard, RefusedError
from cress.network.guarded_proxy import GuardedProxy
from cress.protocol.regular_files import read_regular

FOLDER = "images"
# The programs that pull and unpack images.
TOOLS = ("skopeo", "umoci")
# Seconds for one run of a tool; seconds for which the digest behind a tag is believed; seconds for which an image is
# kept after its last use, and one whose making was killed.
PATIENCE, TAG_KEPT, KEPT, PART_KEPT = 3_000.0, 60.0, 7 * 86_400.0, 3_600.0
# The same for a tool while no other image can be made; seconds between two looks at the room on the disk.
PATIENCE_ALONE, LOOK = 600.0, 0.1
# A disk counts as full below so many free bytes, or this part of it.
LITTLE, LITTLE_PART = 1 << 28, 0.05
# Bytes of the disk that the copy of an archive leaves free.
RESERVE = 1 << 28
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DOCKER = "docker.io"
# The file in ``ID/readers`` of an image that needs no credentials; the others are named by the digest of a user's name.
_EVERYBODY = "everybody"
# The file of the turns in which images are made; there are others beside it.
TURNS = "turns"
POLICY = Path("/etc/containers/policy.json")


class UnpackedImage(NamedTuple):
    """An image on this node: its root file system, and what it says about its program."""

    root: str
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    directory: str = ""


class ImageConfig(msgspec.Struct, frozen=True):
    """The part of an image's configuration that matters for a task; the names are those of the OCI's image format."""

    entrypoint: tuple[str, ...] | None = msgspec.field(name="Entrypoint", default=None)
    command: tuple[str, ...] | None = msgspec.field(name="Cmd", default=None)
    environment: tuple[str, ...] | None = msgspec.field(name="Env", default=None)
    directory: str = msgspec.field(name="WorkingDir", default="")


class Images:
    """The images of one executor, in its directory ``home``; ``sources`` say which registries jobs may use."""

    def __init__(self, home: Path, sources: AllowedSources) -> None:
        self._folder = home.resolve() / FOLDER
        self._sources = sources
        # Held until this process ends.
        self._locks: list[int] = []
        self._patience = PATIENCE

    def use(self, name: str, archive: int = -1, credentials: bytes = b"", user: str = "") -> UnpackedImage:
        """Return an image, pulled and unpacked if the node lacks it; it stays while this process lives. Raise Failed.

        ``archive`` is an open descriptor of the file that the name of an archive means. ``credentials`` are
        ``USER:PASSWORD``, or the content of a ``config.json`` of Docker. ``user`` is the one whose job it is.
        """
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            raise Failed(f"images need {' and '.join(missing)} (Debian packages), which this node lacks", node=True)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            kind, rest = archive_in(name)
            if kind:
                # Never the name of an image of a registry: whoever has an archive need not have that image.
                place = self._folder / f"archive-{_digest_of(archive)}"
                self._hold(place, partial(self._copy_archive, kind, archive))
            else:
                reference = full_name(rest)
                self._check_registry(reference)
                with _auth_file(credentials, reference) as options:
                    digest, answered = self._digest(reference, options)
                    source = f"docker://{_without_tag(reference)}@{digest}"
                    place = self._folder / digest.removeprefix("sha256:")
                    answered |= self._hold(place, partial(self._copy_image, source, options))
                    self._admit(place, source, options, user, answered=answered)
            os.utime(place)
            self._remove_old()
            return _described(place)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            why = "no room is left on the disk of this node" if full else named(error, self._folder)
            raise Failed(why, node=True) from None

    def release(self) -> None:
        """Give up the images; they may be removed from now on."""
        for fd in self._locks:
            os.close(fd)
        self._locks = []

    def _check_registry(self, reference: str) -> None:
        """Raise Failed unless jobs may use the registry of an image."""
        host, port = _place_of(reference)
        if "https" not in self._sources.schemes:
            raise Failed("registries may not be used on this node (--allow-scheme https)")
        try:
            ConnectionGuard(self._sources).allowed_addresses(host, port)
        except RefusedError as error:
            raise Failed(f"the registry {host}: {error}") from None
        except OSError as error:
            raise Failed(f"the registry {host} cannot be found: {error.strerror or error}") from None

    def _pull(self, command: list[str], reference: str, temporary: Path) -> str:
        """Return the output of a tool that asks a registry, in connections that the rules allow. Raise Failed.

        A registry may redirect to other addresses, and say where a token is to be had.
        """
        what = f"the image {reference}"
        proxy = GuardedProxy(ConnectionGuard(self._sources), _place_of(reference))
        try:
            return proxy.run(partial(_run, command, what, temporary, self._patience))
        except Failed as error:
            if proxy.refusals and not error.node:
                raise Failed(f"{what}: its registry leads to another server: {proxy.refusals[0]}") from None
            if proxy.failures and not error.node:
                raise Failed(f"{what}: {proxy.failures[0]}") from None
            raise

    def _digest(self, reference: str, options: list[str]) -> tuple[str, bool]:
        """Return the digest of an image, and whether the registry gave it with these credentials now.

        The digest of a tag is asked for, unless it was a moment ago.
        """
        known = _DIGEST.search(reference)
        if known is not None:
            return known[0], False
        tag = self._folder / f"tag-{hashlib.sha256(reference.encode()).hexdigest()}"
        with contextlib.suppress(OSError):
            if time.time() - tag.stat().st_mtime < TAG_KEPT and not options:
                return read_regular(tag).decode(), False
        told = self._ask(reference, options)
        if not _DIGEST.fullmatch(told):
            raise Failed(f"the registry gave no digest of {reference}: {told[:200]}")
        if not options:
            new = tag.with_suffix(f".{os.getpid()}")
            new.write_text(told)
            if tag.is_dir():
                remove(tag)
            new.rename(tag)
        return told, True

    def _ask(self, reference: str, options: list[str]) -> str:
        """Return what the registry says about an image. Raise Failed, also for credentials that may not have it."""
        verify = _verify(reference, "--tls-verify=false")
        ask = [*_skopeo(), "inspect", *options, *verify, "--format", "{{.Digest}}", f"docker://{reference}"]
        return self._pull(ask, reference, self._folder).strip()

    def _admit(self, place: Path, source: str, options: list[str], user: str, *, answered: bool) -> None:
        """Let a user have an image that this node has, if the registry gives it to them, now or earlier. Raise Failed.

        What it gives without credentials is everybody's, also while the registry is away.
        """
        readers = place / "readers"
        own = readers / hashlib.sha256(user.encode()).hexdigest()
        if not answered:
            if own.exists() or (readers / _EVERYBODY).exists():
                return
            self._ask(source.removeprefix("docker://"), options)
        readers.mkdir(exist_ok=True)
        (own if options else readers / _EVERYBODY).touch()

    def _hold(self, place: Path, copy: Callable[[Path], None]) -> bool:
        """Hold an image; if it is missing, make it first of what ``copy`` puts into a folder. Return whether it did.

        Then its registry has just given it with the credentials of this call, so it need not be asked again.
        """
        while True:
            self._set_aside(place)
            place.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Attempts that start together pull an image once.
            whole = (place / "image.json").exists()
            fcntl.flock(fd, fcntl.LOCK_SH if whole else fcntl.LOCK_EX)
            if not _is_same(place / "lock", fd):
                os.close(fd)  # removed in the meantime, since it was not used for long
                continue
            made = not (place / "image.json").exists()
            if made:
                if whole:
                    os.close(fd)
                    continue
                try:
                    self._make(place, copy)
                except BaseException:
                    os.close(fd)
                    raise
            fcntl.flock(fd, fcntl.LOCK_SH)
            self._locks.append(fd)
            return made

    def _set_aside(self, place: Path) -> None:
        """Set aside what cannot be used in the place of an image, so that it is made again; its users go on."""
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # One at a time: another attempt that has seen the same damage may be making the image again by now.
            fcntl.flock(fd, fcntl.LOCK_EX)
            if _is_damaged(place):
                with contextlib.suppress(FileNotFoundError):  # it was removed, since it was not used for long
                    place.rename(self._folder / f"damaged-{place.name}-{secrets.token_hex(4)}")
        finally:
            os.close(fd)

    def _copy_image(self, source: str, options: list[str], new: Path) -> None:
        """Copy an image of a registry into the layout ``new/oci``."""
        verify = _verify(source, "--src-tls-verify=false")
        copy = [*_skopeo(), "copy", "--quiet", *options, *verify, source, f"oci:{new}/oci:image"]
        self._pull(copy, source.removeprefix("docker://"), new)

    def _copy_archive(self, kind: str, archive: int, new: Path) -> None:
        """Copy the image in an archive into the layout ``new/oci``."""
        path = Path(os.path.realpath(f"/proc/self/fd/{archive}"))
        # Only there no task can change anything; its own folder is in the executor's directory, too.
        if not path.is_relative_to(self._folder.parent / INPUTS):
            # Its owner may change it, or put a link in its place, while skopeo reads it as root. Others would get the
            # result for an archive of their own.
            path = new / "archive"
            _copy_bounded(archive, path)
            with path.open("rb") as file:
                if _digest_of(file.fileno()) != new.parent.name.removeprefix("archive-"):
                    raise Failed("it was changed while it was read")
        _run([*_skopeo(), "copy", "--quiet", f"{kind}{path}", f"oci:{new}/oci:image"], "the image", new, self._patience)
        (new / "archive").unlink(missing_ok=True)

    def _make(self, place: Path, copy: Callable[[Path], None]) -> None:
        """Make an image in ``place``. What is left of a failure would fill the disk for days, so it is removed."""
        with opened_turn(self._folder / TURNS) as turn:
            try:
                self._try(place, copy)
            except BaseException as error:
                if not _lacks_room(error) or turn.was_alone():
                    raise
                first = error
            else:
                return
        # Together they may have filled the disk, and what the other has removed looks like room. So who is at fault
        # shows only if the image is made alone.
        with alone(self._folder / TURNS):
            self._patience = PATIENCE_ALONE
            try:
                self._try(place, copy)
            except TooSlowError:
                # All other images have waited long enough, and what is known is only that there was no room.
                raise first from None
            finally:
                self._patience = PATIENCE

    def _try(self, place: Path, copy: Callable[[Path], None]) -> None:
        for old in ("rootfs", "new", "readers", "image.json.new"):
            remove(place / old)
        try:
            self._unpack(place, copy)
        except BaseException as error:
            # umoci has removed already what it has unpacked.
            too_large = _lacks_room(error) and took_large_part(place)
            for unfinished in ("new", "rootfs"):
                shutil.rmtree(place / unfinished, ignore_errors=True)
            if too_large:
                remedy = larger_disk(place)
                raise NoRoomError(
                    f"no room is left on the disk of this node: the image takes most of it ({remedy})"
                ) from None
            raise

    def _unpack(self, place: Path, copy: Callable[[Path], None]) -> None:
        """Unpack an image into ``place/rootfs``."""
        new = place / "new"
        new.mkdir()
        copy(new)
        config = _config_of(new / "oci")
        unpack = ["umoci", "unpack", "--image", f"{new}/oci:image", f"{new}/bundle"]
        _run(unpack, "the image", new, self._patience)
        (new / "bundle/rootfs").rename(place / "rootfs")
        (place / "image.json.new").write_bytes(msgspec.json.encode(config))
        shutil.rmtree(new, ignore_errors=True)
        # After a loss of power an image is whole, or made again.
        linux.sync_file_system(str(place))
        (place / "image.json.new").rename(place / "image.json")

    def _remove_old(self) -> None:
        """Remove images that nothing has used for long."""
        now = time.time()
        for place in self._folder.iterdir():
            with contextlib.suppress(OSError):
                if place.stat().st_mtime > now - (PART_KEPT if (place / "new").exists() else KEPT):
                    continue
                if place.name.partition(".")[0] == TURNS:
                    continue
                if not place.is_dir():
                    place.unlink()
                    continue
                if (place / "lock").is_dir():
                    shutil.rmtree(place, ignore_errors=True)
                    continue
                fd = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    (place / "image.json").unlink(missing_ok=True)
                    (place / "lock").unlink()
                    shutil.rmtree(place, ignore_errors=True)
                finally:
                    os.close(fd)


def full_name(name: str) -> str:
    """Return the name of an image with its registry: ``docker.io/library/python:3.12`` of ``python:3.12``."""
    first, slash, _ = name.partition("/")
    if not slash or not (first == "localhost" or re.search(r"[.:\[]", first)):
        name = f"{_DOCKER}/{name if slash else f'library/{name}'}"
    return name


def _place_of(reference: str) -> tuple[str, int]:
    """Return the host and port of the registry in the full name of an image."""
    place = reference.partition("/")[0]
    host, _, port = place.rpartition(":") if re.search(r":\d+$", place) else (place, "", "443")
    return ("registry-1.docker.io" if host == _DOCKER else host.strip("[]")), int(port)


def _without_tag(reference: str) -> str:
    head, slash, last = reference.partition("@")[0].rpartition("/")
    return head + slash + last.partition(":")[0]


def _skopeo() -> list[str]:
    """Return the first words of a call; a machine without a policy for images trusts all, as others do by default."""
    return ["skopeo"] if POLICY.exists() else ["skopeo", "--insecure-policy"]


def _verify(source: str, option: str) -> list[str]:
    """Return ``option`` for a registry on this machine, which may have no certificate."""
    host = _place_of(source.removeprefix("docker://"))[0]
    address = parse_address(host)
    return [option] if host == "localhost" or (address is not None and address.is_loopback) else []


@contextlib.contextmanager
def _auth_file(credentials: bytes, reference: str) -> Iterator[list[str]]:
    """Yield the options for credentials, which are in memory only, never on a command line."""
    text = credentials.strip()
    if not text:
        yield []
        return
    if not text.startswith(b"{"):
        import base64

        registry = reference.removeprefix("docker://").partition("/")[0]
        auths: object = {registry: {"auth": base64.b64encode(text).decode()}}
    else:
        auths = _passwords_in(text)
    fd = os.memfd_create("cress")
    try:
        os.write(fd, json.dumps({"auths": auths}).encode())
        yield ["--authfile", f"/proc/self/fd/{fd}"]
    finally:
        os.close(fd)


def _passwords_in(text: bytes) -> dict[str, Any]:
    """Return the passwords in a ``config.json`` by registry. Raise Failed.

    Its other keys may name programs (``credHelpers``, ``credsStore``), which skopeo would run as this account.
    """
    try:
        auths = json.loads(text)["auths"]
    except (ValueError, KeyError, RecursionError):
        auths = None
    if not isinstance(auths, dict):
        hint = "an object with auths; programs for credentials are not run on nodes"
        raise Failed(f"the secret is neither USER:PASSWORD nor a config.json of Docker with passwords ({hint})")
    return auths


def _run(
    command: list[str], what: str, temporary: Path, patience: float, environment: Mapping[str, str] = os.environ
) -> str:
    """Return the output of a tool, which has the descriptors in its words. Raise Failed with what it says."""
    held = [int(number) for number in re.findall(r"/proc/self/fd/(\d+)", " ".join(command))]
    environment = {**environment, "TMPDIR": str(temporary)}
    deadline = time.monotonic() + patience
    was_full = _is_full(temporary)
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, pass_fds=held, env=environment
        ) as tool,
    ):
        output = None
        try:
            while output is None:
                try:
                    output = tool.communicate(timeout=LOOK)[0]
                except subprocess.TimeoutExpired:
                    if time.monotonic() > deadline:
                        raise TooSlowError(f"{what}: {command[0]} took more than {patience / 60:g} min") from None
                # A tool that fails removes its files, so it is too late to look afterwards.
                was_full = was_full or _is_full(temporary)
        except BaseException:
            tool.kill()
            raise
        said.seek(0)
        words = said.read().decode(errors="replace")
    if tool.returncode:
        # A registry, too, can say this, and has its words in those of the tool.
        if was_full and "no space left" in words:
            raise Failed("no room is left on the disk of this node", node=True)
        raise Failed(f"{what}: {_last(words)}")
    return output.decode(errors="replace")


def _is_full(folder: Path) -> bool:
    """Return whether the disk of a folder has little room."""
    known = os.statvfs(folder)
    size, free = known.f_blocks * known.f_frsize, known.f_bavail * known.f_frsize
    # Some file systems do not count inodes.
    return free < max(LITTLE, LITTLE_PART * size) or known.f_favail < LITTLE_PART * known.f_files


class TooSlowError(Failed):
    """Error: a tool took too long."""


class NoRoomError(Failed):
    """Error: the image fits on no disk of this size."""


def _lacks_room(error: BaseException) -> bool:
    if isinstance(error, NoRoomError):
        return True
    return error.node if isinstance(error, Failed) else getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT)


def _last(words: str) -> str:
    """Return the message in the output of a tool, without its frame."""
    lines = [line for line in words.splitlines() if line.strip()]
    found = re.search(r'msg="((?:[^"\\]|\\.)*)"', lines[-1]) if lines else None
    return (found[1].replace('\\"', '"') if found else lines[-1] if lines else "it failed")[:600]


def _digest_of(fd: int) -> str:
    found = hashlib.sha256()
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        while data := _part_of(file):
            found.update(data)
    return found.hexdigest()


def _copy_bounded(archive: int, path: Path) -> None:
    """Copy an archive to a new file. Raise Failed if it is larger than the free room, or grows meanwhile.

    That is not the fault of the node: a user may make a huge file, which would fill one node after the other.
    """
    left, free = os.fstat(archive).st_size, shutil.disk_usage(path.parent).free
    if left > free - RESERVE:
        raise Failed(f"the disk of this node has no room for its {left / 1e9:.1f} GB: {free / 1e9:.1f} GB are free")
    with os.fdopen(os.dup(archive), "rb") as given, path.open("xb") as file:
        given.seek(0)
        while data := _part_of(given):
            left -= len(data)
            if left < 0:
                raise Failed("it was changed while it was read")
            file.write(data)


def _part_of(file: IO[bytes]) -> bytes:
    """Return the next part of an archive, which may be in a file system of the user's own making. Raise Failed."""
    try:
        return file.read(1 << 20)
    except OSError as error:
        raise Failed(f"it cannot be read: {error.strerror}") from None


def _config_of(layout: Path) -> ImageConfig:
    """Return the configuration of the only image in a layout. Raise Failed."""

    def blob(descriptor: Any) -> Any:
        return json.loads((layout / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes())

    try:
        index = json.loads((layout / "index.json").read_bytes())
        config = blob(blob(index["manifests"][0])["config"])
        found = msgspec.convert(config.get("config") or {}, ImageConfig)
        msgspec.json.encode(found)  # JSON may have halves of characters, which no program can be given
    except (KeyError, IndexError, TypeError, ValueError, RecursionError, msgspec.ValidationError) as error:
        raise Failed(f"the image has no readable configuration: {error}") from None
    return found


def _described(place: Path) -> UnpackedImage:
    config = msgspec.json.decode((place / "image.json").read_bytes(), type=ImageConfig)
    pairs = (text.partition("=") for text in config.environment or ())
    return UnpackedImage(
        root=f"{place}/rootfs",
        command=(*(config.entrypoint or ()), *(config.command or ())),
        environment=tuple((name, value) for name, _, value in pairs if name),
        directory=config.directory,
    )


def _is_damaged(place: Path) -> bool:
    """Return whether something lies in the place of an image that is no image, and none that is being made."""
    if not os.path.lexists(place):
        return False
    if not place.is_dir() or place.is_symlink() or (place / "lock").is_dir() or (place / "readers").is_file():
        return True
    try:
        _described(place)
    except FileNotFoundError:
        return False
    except (OSError, msgspec.MsgspecError):
        return True
    return not (place / "rootfs").is_dir()


def _is_same(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
