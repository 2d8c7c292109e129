"""Views of files: uploads of submitters, and files that tasks leave."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from cress.model.bounds import Amount, Real, Small
from cress.protocol.views import View

# Most files of one page.
MOST_LISTED = 2_000


class UploadView(View, frozen=True):
    """An upload: the first ``received`` of ``size`` bytes are there. ``used`` is the time of its last use, in seconds
    since the epoch.
    """

    digest: str
    size: int
    received: int
    complete: bool = False
    used: float = 0.0


class UploadsPage(View, frozen=True):
    """The complete uploads of a user, latest use first.

    ``file_most``, ``user_most`` and ``total_most`` are the limits in bytes; ``kept`` is the number of seconds for which
    an upload is kept after its last use.
    """

    uploads: tuple[UploadView, ...] = ()
    file_most: int = 0
    user_most: int = 0
    total_most: int = 0
    kept: float = 0.0


class TaskFile(msgspec.Struct, frozen=True):
    """A file of a task: ``path`` in its directory, ``size`` in bytes, ``mode`` as in chmod, time of the last change in
    seconds since the epoch. ``link`` is the target of a link, and empty for a file; a ``folder`` is listed if it is
    empty.
    """

    path: Annotated[str, Meta(max_length=8_192)]
    size: Amount = 0
    mode: Small = 0
    modified: Real = 0.0
    link: Annotated[str, Meta(max_length=8_192)] = ""
    folder: bool = False


class FilesPage(View, frozen=True):
    """Files in the directory of an attempt by path; ``next`` is ``after`` of the following page.

    ``directory`` is the one that the job names on ``node``; empty: the attempt has its own.
    """

    files: tuple[TaskFile, ...] = ()
    next: str | None = None
    task: int = 0
    attempt: int = 0
    node: str = ""
    directory: str = ""
