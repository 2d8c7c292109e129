"""Values that an ended attempt hands on, from the file ``$CRESS_OUTPUT`` in its folder."""

from __future__ import annotations

import errno
import os

from cress.executor.attempt_log import open_log
from cress.model.errors import InputError
from cress.model.reports import Cause
from cress.model.step_values import FILE, MOST_BYTES, Values, parse_values
from cress.shell.executor.starting import StageFailure


def read(folder: bytes) -> tuple[Values, StageFailure | None]:
    """Return the values in the folder of a successful attempt, or why they cannot be used; usually there are none."""
    try:
        fd = open_log(folder + b"/" + FILE, os.O_RDONLY)
    except FileNotFoundError:
        return (), None
    except OSError as error:
        why = error.strerror if error.errno == errno.EBADF else f"cannot be read: {error.strerror}"
        return (), StageFailure(Cause.OUTPUTS, f"$CRESS_OUTPUT: {why}")
    try:
        return parse_values(os.pread(fd, MOST_BYTES + 1, 0)), None
    except InputError as error:
        place = f"line {error.line}: " if error.line else ""
        hint = f" ({error.hint})" if error.hint else ""
        return (), StageFailure(Cause.OUTPUTS, f"$CRESS_OUTPUT: {place}{error.what}{hint}")
    except OSError as error:
        return (), StageFailure(Cause.OUTPUTS, f"$CRESS_OUTPUT: cannot be read: {error.strerror}")
    finally:
        os.close(fd)
