"""Execution of a command: the search path, and the most specific error if no file can be executed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping

PATH = b"PATH"


def candidates(command: bytes, environment: Mapping[bytes, bytes]) -> list[bytes]:
    """Return the files that ``command`` may refer to, in the order of this environment's search path."""
    if b"/" in command:
        return [command]
    path = environment.get(PATH, os.defpath.encode())
    return [folder + b"/" + command if folder else command for folder in path.split(b":")] if command else []


def become(programs: Iterable[bytes], arguments: list[bytes], environment: Mapping[bytes, bytes]) -> int:
    """Become the first of the programs that can be executed; if there is none, raise the most specific error."""
    worst = errno.ENOENT
    for program in programs:
        try:
            os.execve(program, arguments, environment)  # noqa: S606 - what this is for
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                worst = error.errno or errno.EINVAL
                if worst != errno.EACCES:
                    break
    return worst
