"""Files that a job brings from where its submitter stands: found, read, and named by their content.

A relative path in ``files`` and the folder ``workdir`` become addresses of uploads (``upload:SHA256``); a folder
becomes an archive. ``client/aio/uploads.py`` sends them.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

from cress.client.ignored import IgnoreRules
from cress.model.archives import archive_in
from cress.model.errors import InputError, InputErrors
from cress.model.jobfile.files import is_address
from cress.model.uploads import SCHEME

# Most files of one folder: more belong into an archive or a file system that the nodes share.
MOST_IN_FOLDER = 100_000
# Bytes read at a time.
CHUNK = 1 << 20
# A file with the patterns of what a folder does not bring; the first that exists is used.
IGNORE_FILES = (".cressignore", ".gitignore")
# The digest of what cannot be read.
_NO_DIGEST = "0" * 64
_CHANGED = "it was changed while it was read"
_FILES, _WORKDIR, _IMAGE = "files", "workdir", "image"


class FileState(NamedTuple):
    """The state of a file that shows whether it was changed: inode, size, and time of the last change (ns)."""

    inode: int
    size: int
    changed: int


class Input(NamedTuple):
    """A file to upload. ``field`` is the place in the job, ``name`` the path as given."""

    digest: str
    size: int
    path: Path
    state: FileState
    field: str
    name: str

    def wrong(self, what: str, hint: str = "") -> InputError:
        """Return an error about this file."""
        return InputError(f"{self.name}: {what}", hint=hint, field=self.field)

    def part(self, offset: int, most: int) -> bytes:
        """Return at most ``most`` bytes from ``offset`` on. Raises InputError if the file was changed since."""
        try:
            with self.path.open("rb") as file:
                self._check(file)
                file.seek(offset)
                data = file.read(most)
                self._check(file)
                return data
        except OSError as error:
            raise self.wrong(f"cannot be read: {error.strerror}") from None

    def _check(self, file: IO[bytes]) -> None:
        if _state_of(os.fstat(file.fileno())) != self.state:
            raise self.wrong(_CHANGED, "submit it again when nothing writes to it")


class Inputs:
    """The inputs of one submit: ``jobs`` name them by their content. Close it when they are sent.

    ``mistakes`` are those of all jobs, each with its field, in the order of the jobs. A path with a mistake has the
    address of no upload, so that the rest of its job can be checked.
    """

    def __init__(self) -> None:
        self.found: dict[str, Input] = {}
        self.mistakes: list[InputError] = []
        self._archives: tempfile.TemporaryDirectory[str] | None = None
        self._known: dict[tuple[Path, bool], Input] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._archives is not None:
            self._archives.cleanup()

    def of_job(self, mapping: Mapping[str, object], base: Path, place: str = "") -> dict[str, object]:
        """Return the job with addresses of uploads in place of paths.

        ``base`` is the folder of its relative paths, ``place`` begins its fields in ``mistakes``.
        """
        made: dict[str, object] = {}
        for key, value in mapping.items():
            match _plain(key):
                case "files":
                    made[key] = self._files(value, base, f"{place}{key}")
                case "workdir":
                    made[key] = self._workdir(value, base, f"{place}{key}")
                case "image":
                    made[key] = self._image(value, base, f"{place}{key}")
                case "steps" if isinstance(value, Mapping):
                    made[key] = {
                        name: self.of_job(step, base, f"{place}{key}.{name}.") if isinstance(step, Mapping) else step
                        for name, step in value.items()
                    }
                case _:
                    made[key] = value
        return made

    def check(self) -> None:
        """Raise the mistakes that were found, all together."""
        if self.mistakes:
            raise self.mistakes[0] if len(self.mistakes) == 1 else InputErrors(self.mistakes)

    def _workdir(self, value: object, base: Path, field: str) -> object:
        if not isinstance(value, str) or value.startswith(SCHEME):
            return value  # the center reports what is no text
        return SCHEME + self._digest(_here(base, value), value, field, is_workdir=True)

    def _image(self, value: object, base: Path, field: str) -> object:
        if isinstance(value, Mapping):
            return {
                key: self._image(inner, base, f"{field}.{key}") if _plain(key) == "name" else inner
                for key, inner in value.items()
            }
        prefix, rest = archive_in(value) if isinstance(value, str) else ("", "")
        if not (prefix and _is_local(rest)):
            return value
        return f"{prefix}{SCHEME}{self._digest(_here(base, rest), rest, field)}"

    def _files(self, value: object, base: Path, field: str) -> object:
        if isinstance(value, str):
            return [self._entry(value, base, field)]
        if isinstance(value, Mapping):
            if not any(_is_local(source) for source in value.values()):
                return value
            return [
                self._entry({"path": path, "source": source}, base, f"{field}.{path}") for path, source in value.items()
            ]
        if isinstance(value, Sequence):
            return [self._entry(entry, base, f"{field}[{place}]") for place, entry in enumerate(value)]
        return value

    def _entry(self, entry: object, base: Path, field: str) -> object:
        """Return one entry of ``files`` as the center reads it."""
        if isinstance(entry, str):
            if not _is_local(entry):
                return entry
            entry, field_of_source = {"source": entry}, field
        elif isinstance(entry, Mapping):
            field_of_source = f"{field}.source"
        else:
            return entry
        keys = {_plain(key): key for key in entry}
        source = entry.get(keys.get("source", ""))
        if not _is_local(source):
            return entry
        assert isinstance(source, str)
        path = _here(base, source)
        made = {key: value for key, value in entry.items() if _plain(key) != "source"}
        mistakes = len(self.mistakes)
        if "$" in source:
            what = f"{source}: files from where you stand have no variables in their path"
            hint = "their folder; the task finds its own file in it by CRESS_TASK_INDEX"
            self.mistakes.append(InputError(what, hint=hint, field=field_of_source))
            made["source"] = SCHEME + _NO_DIGEST
        else:
            made["source"] = SCHEME + self._digest(path, source, field_of_source)
        target = str(made.get(keys.get("path", "path"), "")) or _target_of(source, path)
        if len(self.mistakes) > mistakes:  # what cannot be read has neither kind nor mode
            made[keys.get("path", "path")] = target
            return made
        if path.is_dir():
            made["unpack"] = True
        elif target.endswith("/") and "unpack" not in keys:
            target += path.name
        made[keys.get("path", "path")] = target
        if path.is_file() and "mode" not in keys and path.stat().st_mode & stat.S_IXUSR:
            made["mode"] = "755"
        return made

    def _digest(self, path: Path, name: str, field: str, *, is_workdir: bool = False) -> str:
        """Return the digest of an input; one that cannot be read is a mistake, and has a digest that no input has."""
        known = self._known.get((path, is_workdir))
        if known is not None:
            return known.digest
        try:
            found = self._read(path, name, field, is_workdir=is_workdir)
        except OSError as error:
            self.mistakes.append(_unusable(error, path, name, field))
            return _NO_DIGEST
        except InputError as error:
            self.mistakes.append(error)
            return _NO_DIGEST
        except ValueError:  # a NUL
            self.mistakes.append(InputError(f"{name!r} is not a path", field=field))
            return _NO_DIGEST
        self._known[path, is_workdir] = found
        self.found.setdefault(found.digest, found)
        return found.digest

    def _read(self, path: Path, name: str, field: str, *, is_workdir: bool) -> Input:
        mode = path.stat().st_mode
        if is_workdir and not stat.S_ISDIR(mode):
            raise InputError(f"{name} is not a folder", hint="workdir: . for the folder where you stand", field=field)
        if stat.S_ISDIR(mode):
            if self._archives is None:
                self._archives = tempfile.TemporaryDirectory(prefix="cress-")
            archive = Path(self._archives.name, f"{len(self._known)}.tar")
            rules = IgnoreRules.of_folder(path, IGNORE_FILES if is_workdir else IGNORE_FILES[:1])
            pack(path, archive, rules, lambda what: InputError(f"{name}: {what}", field=field))
            path = archive
        elif not stat.S_ISREG(mode):
            raise InputError(f"{name} is neither a file nor a folder", field=field)
        before = _state_of(path.stat())
        digest = _digest_of(path)
        if _state_of(path.stat()) != before:
            raise InputError(f"{name}: {_CHANGED}", hint="submit it again when nothing writes to it", field=field)
        return Input(digest, before.size, path, before, field, name)


def pack(folder: Path, archive: Path, rules: IgnoreRules, wrong: Callable[[str], InputError]) -> None:
    """Write the files of a folder into a tar that depends on nothing but them: names, contents, modes, times.

    Raises OSError, and an error of ``wrong``.
    """
    count = 0
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for path, name in rules.walk(folder):
            count += 1
            if count > MOST_IN_FOLDER:
                raise wrong(f"has more than {MOST_IN_FOLDER:,} files; name some of them in {IGNORE_FILES[0]}")
            before = path.lstat()
            member = tar.gettarinfo(path, name)
            # Two names of one file are two files: a link to what was left out would lead nowhere.
            if member.islnk():
                member.type, member.linkname, member.size = tarfile.REGTYPE, "", before.st_size
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = int(before.st_mtime)
            if member.isreg():
                with path.open("rb") as file:
                    tar.addfile(member, file)
                if _state_of(path.lstat()) != _state_of(before):
                    raise wrong(f"{name} was changed while it was read; submit it again when nothing writes to it")
            elif member.isdir() or member.issym():
                tar.addfile(member)
            else:
                raise wrong(f"{name} is neither a file, a folder nor a link; name it in {IGNORE_FILES[0]}")


def brings_files(mapping: Mapping[str, object]) -> bool:
    """Return whether a job may name files from where its submitter stands."""
    return any(
        _plain(key) in (_FILES, _WORKDIR, _IMAGE)
        or (_plain(key) == "steps" and isinstance(value, Mapping) and any(
            isinstance(step, Mapping) and brings_files(step) for step in value.values()))
        for key, value in mapping.items()
    )  # fmt: skip


def _is_local(source: object) -> bool:
    return isinstance(source, str) and bool(source) and not is_address(source) and not source.startswith(SCHEME)


def _here(base: Path, name: str) -> Path:
    return base / Path(name).expanduser() if name.startswith("~") else base / name


def _target_of(source: str, path: Path) -> str:
    """Return where a file goes in the directory of a task if the job does not say: the same relative path."""
    words = [word for word in source.split("/") if word not in ("", ".")]
    if source.startswith("~") or ".." in words or not words:
        try:
            return path.resolve().name
        except ValueError:  # a NUL
            return path.name
    return "/".join(words)


def _plain(key: object) -> str:
    return str(key).lower().replace("_", "").replace("-", "")


def _state_of(status: os.stat_result) -> FileState:
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns)


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unusable(error: OSError, path: Path, name: str, field: str) -> InputError:
    if isinstance(error, FileNotFoundError):
        hint = f"looked for {path.absolute()}; a path of the node begins with /, other addresses with https:// or s3://"
        return InputError(f"{name} does not exist here", hint=hint, field=field)
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else name
    return InputError(f"{where} cannot be read: {error.strerror or error}", field=field)
