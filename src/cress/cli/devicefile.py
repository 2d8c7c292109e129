"""The file of ``--devices``: YAML with line numbers, for ``model.devicefile``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cress.cli.common import read_text
from cress.model.devicefile import Configured, marked_lines, read_devices
from cress.model.errors import InputError

HINT = "disks:, devices: and data: (docs/devices.md)"


def read_device_file(path: Path) -> Configured:
    """The devices that a file describes. Raises InputError, or InputErrors, with file, line and field."""
    file = str(path)
    document = _document(read_text(file, "YAML"), file)
    if document is None:
        raise InputError("there is nothing in it", hint=HINT, file=file)
    if not isinstance(document, Mapping):
        raise InputError("is not a mapping", hint=HINT, file=file, line=1)
    return read_devices(document, file=file, line_of=marked_lines(document))


def _document(text: str, file: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import RoundTripConstructor
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    class Constructor(RoundTripConstructor):
        """Numbers with a point stay text, as they were written."""

    Constructor.add_constructor("tag:yaml.org,2002:float", Constructor.construct_scalar)
    yaml = YAML(typ="rt")
    yaml.Constructor = Constructor
    try:
        return yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = f"is not valid YAML: {(error.problem or error.context or '').splitlines()[0]}"
        raise InputError(what, hint=HINT, file=file, line=mark.line + 1 if mark else 0) from None
    except (YAMLError, ValueError) as error:
        raise InputError(f"is not valid YAML: {str(error).splitlines()[0]}", hint=HINT, file=file) from None
    except RecursionError:
        raise InputError("has too many levels", hint=HINT, file=file) from None
