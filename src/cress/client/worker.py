"""A task of ``Client.map`` or ``Executor``: ``python -m cress.client.worker ADDRESS`` does chunk ``$CRESS_TASK_INDEX``.

An exception of the function is a result. This program fails only if its process dies or its data are missing; then the
task is tried again as often as the job allows.
"""

from __future__ import annotations

import errno
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from cress.client import frames
from cress.client.frames import CallResult
from cress.client.spool import Spool, opened

MAP = "map"


def main(arguments: list[str]) -> int:
    """Do one chunk; return the exit code."""
    chunk = int(os.environ["CRESS_TASK_INDEX"])
    spool = opened(arguments[0])
    try:
        head = frames.head_of(spool)
        skip = f"{chunk}{frames.SKIP}" in spool.names() if head["kind"] != MAP else False
    except FileNotFoundError:
        _say(f"there is no {spool.address} on this node: spool= must be a folder that all nodes share, or an address")
        return 1
    try:
        if not skip:
            _do(spool, head, chunk)
    except OSError as error:
        if error.errno not in {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC}:
            raise
        hint = (
            "; in a container: cress executor --writable FOLDER, or another spool="
            if error.errno == errno.EROFS
            else ""
        )
        _say(f"{spool.address} cannot be written on this node ({error.strerror}){hint}")
        return 1
    return 0


def _do(spool: Spool, head: dict[str, Any], chunk: int) -> None:
    broken = _other_python(head)
    if not broken:
        _settle(head)
        with spool.write(f"{chunk}{frames.BEGUN}"):
            pass
    with spool.write(f"{chunk}{frames.RESULT}") as file:
        if broken:
            frames.write_broken(file, broken, "")
            return
        try:
            function, items = frames.load(spool, frames.FUNCTION), frames.load(spool, frames.FIRST + chunk)
        except OSError:
            raise
        except BaseException as error:  # noqa: BLE001 – whatever importing the user's modules does
            said = "".join(traceback.format_exception_only(error)).strip()
            frames.write_broken(file, f"the function cannot be loaded by the task: {said}", traceback.format_exc())
            return
        do = _mapped if head["kind"] == MAP else _called
        frames.write_outcomes(file, do(function, items), dump)


def _say(sentence: str) -> None:
    sys.stderr.write(f"cress: {sentence}\n")


def _other_python(head: dict[str, Any]) -> str:
    """Return an error if this Python cannot run the function, since byte code differs between versions."""
    theirs, mine = ".".join(map(str, head["python"])), ".".join(map(str, sys.version_info[:2]))
    if theirs == mine:
        return ""
    return (
        f"the function was sent by Python {theirs} and {sys.executable} is Python {mine}: python= must be one of "
        f"{theirs}"
    )


def _settle(head: dict[str, Any]) -> None:
    """Make modules and relative paths of the client available."""
    sys.path += [entry for entry in head["path"] if entry not in sys.path]
    try:
        os.chdir(head["directory"])
    except OSError as error:
        _say(f"{head['directory']} is not there on this node: {error.strerror}")


def _mapped(function: Callable[..., Any], items: list[tuple[Any, ...]]) -> Iterator[CallResult]:
    """Yield the results of one function, called for each item."""
    for item in items:
        yield _outcome(function, item, {})


def _called(_: object, items: list[tuple[bytes, bytes]]) -> Iterator[CallResult]:
    """Yield the results of calls that were pickled one by one as function and arguments."""
    known: dict[bytes, Callable[..., Any]] = {}
    for function, arguments in items:
        try:
            if function not in known:
                known[function] = pickle.loads(function)  # noqa: S301 – the user's own
            given, named = pickle.loads(arguments)  # noqa: S301
        except BaseException as error:  # noqa: BLE001 – as when a chunk is loaded
            yield frames.raised(error)
        else:
            yield _outcome(known[function], given, named)


def _outcome(function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> CallResult:
    try:
        return CallResult(value=function(*given, **named))
    except BaseException as error:  # noqa: BLE001 – it is a result
        return frames.raised(error)


def dump(value: Any, file: BinaryIO) -> None:
    """Pickle a result, with plain pickle if possible, which is much faster."""
    begin = file.tell()
    try:
        pickle.dump(value, file, frames.PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        import cloudpickle

        file.seek(begin)
        file.truncate()
        cloudpickle.dump(value, file, protocol=frames.PROTOCOL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
