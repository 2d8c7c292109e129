"""Images in a job file: ``image: python:3.12``, ``image: oci-archive:PATH``, ``{name: …, secret: …}``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cress.model.archives import archive_in
from cress.model.errors import InputError
from cress.model.jobfile.reader import Reader
from cress.model.jobfile.values import as_text, as_word, raise_all, shown
from cress.model.run import Image
from cress.model.secrets import checked_secret_name
from cress.model.uploads import digest_in

IMAGE_KEYS = ("name", "secret")
MAX_NAME = 1_000

_HINT = "python:3.12, registry.example.org/team/tool:1, NAME@sha256:…, oci-archive:PATH, or {name: …, secret: …}"
# As the registries' own grammar, without its more exotic separators.
_NAME = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?/|\[[0-9A-Fa-f:]+\](?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


def image(value: object) -> Image:
    """Parse the image of a job."""
    if not isinstance(value, Mapping):
        return Image(name=_name(value))
    reader = Reader(value, IMAGE_KEYS)
    if "name" not in reader.given:
        reader.errors.append(InputError("is missing", hint=_HINT, field="name"))
    made = Image(
        name=reader.read("name", _name, ""),
        secret=reader.read("secret", lambda given: checked_secret_name(as_text(given), ""), ""),
    )
    raise_all(reader.errors)
    return made


def program_of(image: Image) -> str:
    """Return the default name of a job that runs the program of its image."""
    path = archive_in(image.name)[1].partition("@")[0].rstrip("/").rpartition("/")[2]
    return path.partition(":")[0]


def _name(value: object) -> str:
    text = as_word(as_text(value)).strip()
    if len(text) > MAX_NAME:
        raise InputError(f"a name of {len(text):,} characters is too long", hint=f"at most {MAX_NAME:,}")
    prefix, rest = archive_in(text)
    if prefix:
        if not (rest.startswith("/") or digest_in(rest)):
            hint = "a path of the node that begins with /; `cress submit` and the Python client upload an archive from "
            raise InputError(f"{shown(value)} is not an archive", hint=f"{hint}where you stand")
        return text
    if not _NAME.fullmatch(text.removeprefix("docker://")):
        raise InputError(f"{shown(value)} is not the name of an image", hint=_HINT)
    return text.removeprefix("docker://")
