"""The file of ``--devices``: YAML with line numbers, for ``model.devicefile``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cress.cli.common import read_text
from cress.formats.yaml_text import line_at, read_mapping
from cress.model.devicefile import DeviceFile, read_devices
from cress.model.errors import InputError

HINT = "disks:, devices: and data: (docs/devices.md)"


def read_device_file(path: Path) -> DeviceFile:
    """Return the devices that a file describes. Raise InputError, or InputErrors, with file, line and field."""
    file = str(path)
    document = read_mapping(read_text(file, "YAML"), file, HINT)
    if document is None:
        raise InputError("there is nothing in it", hint=HINT, file=file)
    return read_devices(document, file=file, line_of=partial(line_at, document))
