"""Files in a job file: those fetched before a program starts, and those saved after its success.

Both are a list of mappings, or one mapping by path: ``data.csv: https://…/data.csv``. Paths from where the submitter
stands have become addresses of uploads before (``client/inputs.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cress.model.errors import MAX_ERRORS, InputError
from cress.model.jobfile.reader import Reader, below, mapping_of
from cress.model.jobfile.values import as_text, as_word, mistakes, raise_all, shown, truth
from cress.model.run import File
from cress.model.uploads import SCHEME, digest_in

MAX_FILES = 1_000
MAX_ADDRESS = 4_000

# Bytes of a text in a job file: it is stored with the job, and sent with each attempt.
MAX_TEXT = 64 * 2**10

FILE_KEYS = ("source", "path", "mode", "unpack", "text")
OUTPUT_KEYS = ("path", "to")
_FILES_HINT = "a list of {source: ADDRESS, path: PATH}, or PATH: ADDRESS for each"
_OUTPUTS_HINT = "a list of {path: PATH, to: ADDRESS}, or PATH: ADDRESS for each"
_UPLOAD_HINT = (
    "https://…, s3://…, or a path of the node that begins with /; `cress submit` and the Python client upload files "
    "from where you stand, other clients do it first with POST /v1/uploads/SHA256 and then name upload:SHA256"
)
_ADDRESS_HINT = "https://…, s3://…, sftp://…, file:///…, or a path that begins with /"


def files(value: object) -> tuple[File, ...]:
    """Parse the files that are fetched before the program starts."""
    return _all(value, _file, "source", _FILES_HINT)


def outputs(value: object) -> tuple[File, ...]:
    """Parse the files that are saved after the program has succeeded."""
    return _all(value, _output, "to", _OUTPUTS_HINT)


def workdir(value: object) -> File:
    """Parse the folder whose files each attempt gets; clients have uploaded it as an archive."""
    return File(source=_source(value), path=".", unpack=True)


def is_address(text: str) -> bool:
    """Return whether a text is the address of a file: a URL, or an absolute path on the node."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*(::|:)//?\S|/", text) is not None


def address(value: object) -> str:
    """Parse the address of a file: a URL, or an absolute path on the node."""
    text = as_word(as_text(value)).strip()
    if not is_address(text):
        raise InputError(f"{shown(value)} is not an address", hint=_ADDRESS_HINT)
    if len(text) > MAX_ADDRESS:
        raise InputError(f"an address of {len(text)} characters is too long", hint=f"at most {MAX_ADDRESS}")
    return text


def _source(value: object) -> str:
    """Parse the address of a file that is fetched: also that of an upload."""
    text = as_word(as_text(value)).strip()
    if digest_in(text):
        return text
    if text.startswith(SCHEME):
        raise InputError(f"{shown(value)} is not an upload", hint=f"{SCHEME} and the SHA-256 of its content")
    if not is_address(text):
        raise InputError(f"{shown(value)} is not an address", hint=_UPLOAD_HINT)
    return address(value)


def _text(value: object) -> str:
    text = as_text(value)
    if len(text.encode(errors="surrogatepass")) > MAX_TEXT:
        raise InputError(f"a text of {len(text):,} characters is too long", hint="at most 64 KB; else a file: source")
    return text


def _all(value: object, read: Callable[[Mapping[str, object]], File], far: str, hint: str) -> tuple[File, ...]:
    if isinstance(value, (Mapping, list, tuple)) and len(value) > MAX_FILES:
        raise InputError(f"{len(value):,} files are too many", hint=f"at most {MAX_FILES:,}")
    entries: list[tuple[str, object]]
    if isinstance(value, Mapping):
        entries = [(shown(path).strip("'\""), {"path": path, far: other_end}) for path, other_end in value.items()]
    elif isinstance(value, (list, tuple)):
        words = far == "source"
        entries = [
            (f"[{place}]", {far: entry} if words and isinstance(entry, str) else entry)
            for place, entry in enumerate(value)
        ]
    else:
        raise InputError(f"{shown(value)} is not a list", hint=hint)
    found: list[File] = []
    errors: list[InputError] = []
    for place, entry in entries:
        if len(errors) > MAX_ERRORS:
            break
        try:
            found.append(read(mapping_of(entry, hint)))
        except InputError as error:
            errors += [below(mistake, place) for mistake in mistakes(error)]
    raise_all(errors)
    return tuple(found)


def _name_of(source: str) -> str:
    """Return the last part of an address, by which a file is called if the job names no path."""
    return "" if digest_in(source) else re.split(r"[?#]", source)[0].rstrip("/").rpartition("/")[2]


def _file(entry: Mapping[str, object]) -> File:
    reader = Reader(entry, FILE_KEYS)
    unpack = reader.read("unpack", lambda value: truth(value, "it is an archive, unpacked into the folder path"), False)
    with_text = "text" in reader.given
    if with_text and "source" in reader.given:
        reader.wrong("text", "cannot be combined with source", "only one of them")
    if with_text and unpack:
        reader.wrong("text", "cannot be unpacked", "unpack: false")
    source = reader.read("source", _source, "") if with_text else _needed(reader, "source", _source)
    # Of a wrong source nobody knows the name, which is no second mistake.
    name = _name_of(source) if source or with_text else "name"
    made = File(
        source=source,
        path=reader.read("path", _path, name) if name else _needed(reader, "path", _path),
        mode=reader.read("mode", _mode, 0),
        unpack=unpack,
        text=reader.read("text", _text, ""),
    )
    raise_all(reader.errors)
    return made


def _output(entry: Mapping[str, object]) -> File:
    reader = Reader(entry, OUTPUT_KEYS)
    made = File(source=_needed(reader, "to", address), path=_needed(reader, "path", _path))
    raise_all(reader.errors)
    return made


def _needed(reader: Reader, key: str, parse: Callable[[object], str]) -> str:
    if key not in reader.given:
        reader.errors.append(InputError("is missing", hint=", ".join(FILE_KEYS[:2]), field=key))
    return reader.read(key, parse, "")


def _path(value: object) -> str:
    text = as_word(as_text(value))
    if not text.strip() or text.endswith("/.") or ".." in text.split("/"):
        raise InputError(
            f"{shown(value)} is not a path of a file", hint="below the task's directory, or absolute; no `..`"
        )
    return text


def _mode(value: object) -> int:
    text = as_text(value).strip()
    if not re.fullmatch(r"0?o?[0-7]{3,4}", text):
        raise InputError(f"{shown(value)} is not a mode", hint="as for chmod: 755")
    return int(text.replace("o", ""), 8)
