"""Uploads: files of submitters that the center keeps by their content, until no job uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cress.model.run import UPLOAD as SCHEME
from cress.model.run import Run

__all__ = ["SCHEME", "digest_in", "is_digest", "uploads_of"]

_DIGEST = re.compile(r"[0-9a-f]{64}")


def is_digest(text: str) -> bool:
    """Return whether a text is the digest of an upload: 64 lower-case hexadecimal digits."""
    return _DIGEST.fullmatch(text) is not None


def digest_in(source: str) -> str:
    """Return the digest in the address of an upload; empty for every other address."""
    digest = source.removeprefix(SCHEME)
    return digest if digest != source and is_digest(digest) else ""


def uploads_of(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the uploads that the tasks of a run fetch: the key in the job file, and the digest."""
    for place, file in enumerate(run.files):
        digest = digest_in(file.source)
        if digest:
            yield f"files[{place}].source", digest
    if run.image is not None:
        digest = digest_in(run.image.name.partition(":")[2])
        if digest:
            yield "image", digest
