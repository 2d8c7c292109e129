"""Device files: ``disks``, ``devices`` and ``data`` of a node (docs/devices.md).

A reader of YAML passes its mapping and a function that gives the line of a place; every mistake is reported with its
place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from cress.model.devices import MAX_ID, MOST_DEVICES
from cress.model.errors import InputError, InputErrors
from cress.model.jobfile.reader import Reader, below, mapping_of
from cress.model.jobfile.values import as_number, as_text, mistakes, shown
from cress.model.node import DISK_KIND, Device
from cress.model.resources import BASE_DIMENSIONS, DISK_DIMENSIONS, Dimensions
from cress.model.units import one_of, parse_count
from cress.model.vectors import parse_vector

KEYS = ("disks", "devices", "data")
MOST_DATA = 1_000
MAX_PATH = 4095  # PATH_MAX of Linux, without the NUL byte at the end
MAX_MODEL = 64

_DISK_KEYS = ("path", "name", "bandwidth")
_DEVICE_KEYS = ("id", "path", "model")
_KIND_KEYS = ("count", "model")
_BANDWIDTH = "bytes/s such as 200M, or read:write:iops_read:iops_write such as 2G:1G:500K:200K"
_KINDS = "gpu: {count: 2, model: A10}, or a list of {id: …, path: /dev/…}"
_ABSOLUTE = "an absolute path such as /data/disk1, without `..`, `:` and line ends"
_PLAIN = Dimensions()

# Returns the line of a place such as ``disks[0].bandwidth``, or of the nearest part around it; 0 if unknown.
Lines: TypeAlias = Callable[[str], int]


class DeviceFile(msgspec.Struct, frozen=True):
    """The contents of a device file: ``devices``, patterns of ``data`` paths, and the kinds of devices that it
    mentions.

    A kind in ``told`` without a device states that the node has none.
    """

    devices: tuple[Device, ...] = ()
    data: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


def read_devices(
    mapping: Mapping[str, object],
    *,
    file: str = "",
    line_of: Lines = lambda _: 0,
    dimensions: Dimensions | None = None,
    located: bool = True,
) -> DeviceFile:
    """Read a mapping with the optional keys ``disks``, ``devices`` and ``data``.

    ``dimensions`` are those of the cluster, whose custom ones are the kinds of devices; ``None``: not known here.
    ``located``: a disk needs a path (simulated disks have none). Raises InputError, or InputErrors with all mistakes,
    each with file, line and field.
    """
    reading = _Reading(dimensions, located)
    reader = Reader(mapping, KEYS)
    reader.read("disks", reading.disks, None)
    reader.read("devices", reading.kinds, None)
    none: tuple[str, ...] = ()
    data = reader.read("data", _data, none)
    errors = reader.errors
    if len(reading.devices) > MOST_DEVICES and not errors:
        what = f"{len(reading.devices)} devices are too many for a node"
        last = "devices" if reader.has("devices") else "disks"
        errors.append(InputError(what, hint=f"at most {MOST_DEVICES}", field=last))
    if errors:
        placed = [error.at(file=file, line=line_of(error.field)) for error in errors]
        raise placed[0] if len(placed) == 1 else InputErrors(placed)
    return DeviceFile(tuple(reading.devices), data, tuple(reading.told))


class _Reading:
    """The devices read so far, in order, and the values that must be unique among them."""

    def __init__(self, dimensions: Dimensions | None, located: bool) -> None:
        self.dimensions = dimensions
        self.located = located
        self.devices: list[Device] = []
        self.told: list[str] = []
        self.ids: set[tuple[str, str]] = set()
        self.paths: set[str] = set()

    # --- disks -----------------------------------------------------------------------------------------------------

    def disks(self, value: object) -> None:
        if not isinstance(value, (list, tuple)):
            raise InputError(f"{shown(value)} is not a list", hint="a list of {path: /data/disk1, bandwidth: 200M}")
        self.told.append(DISK_KIND)
        _each(value, self._disk)

    def _disk(self, position: int, value: object) -> None:
        keys = _DISK_KEYS if self.located else (*_DISK_KEYS, "count")
        reader = Reader(mapping_of(value, "{path: /data/disk1, bandwidth: 200M}"), keys)
        path = reader.read("path", _path, "")
        if self.located and not reader.has("path"):
            reader.wrong("path", "is missing", "the folder that tasks get theirs in, such as /data/disk1")
        if not reader.has("bandwidth"):
            reader.wrong("bandwidth", "is missing", _BANDWIDTH)
        bandwidth = reader.read("bandwidth", _bandwidth, (0, 0, 0, 0))
        count = reader.read("count", _count, 1)
        name = reader.read("name", _id, "")
        if path and reader.has("count"):
            reader.wrong("count", "cannot be combined with a path", "each disk by itself, or no path")
        if not reader.errors:
            if reader.has("count"):
                ids = [f"{name or 'disk'}{len(self.devices) * (not name) + i}" for i in range(count)]
            else:
                ids = [name or (_id_of(path) if path else f"disk{len(self.devices)}")]
            for device_id in ids:
                self._add(reader, "name", Device(kind=DISK_KIND, id=device_id, path=path, bandwidth=bandwidth))
        _raise(reader.errors)

    # --- other devices ---------------------------------------------------------------------------------------------

    def kinds(self, value: object) -> None:
        errors: list[InputError] = []
        for kind, listed in mapping_of(value, _KINDS).items():
            try:
                self._kind(str(kind), listed)
            except InputError as error:
                errors += [below(one, str(kind)) for one in mistakes(error)]
        _raise(errors)

    def _kind(self, kind: str, value: object) -> None:
        self._check_kind(kind)
        self.told.append(kind)
        if isinstance(value, (list, tuple)):
            models: list[str] = []
            _each(value, lambda position, device: self._device(kind, position, device, models))
            return
        if not isinstance(value, Mapping):
            value = {"count": value}
        reader = Reader(value, _KIND_KEYS)
        if not reader.has("count"):
            reader.wrong("count", "is missing", _KINDS)
        count = reader.read("count", _count, 0)
        model = reader.read("model", _model, "")
        for i in range(count):
            self._add(reader, "count", Device(kind=kind, id=str(i), model=model))
        _raise(reader.errors)

    def _check_kind(self, kind: str) -> None:
        if kind == DISK_KIND or kind in DISK_DIMENSIONS:
            raise InputError("is not a kind of device here", hint="disks have a list of their own, disks:")
        if kind in BASE_DIMENSIONS:
            raise InputError(f"{kind} is only an amount, without single devices", hint=_KINDS)
        if self.dimensions is not None:
            if kind not in self.dimensions.custom:
                known = self.dimensions.custom
                hint = one_of(kind, known) if known else "declare it among the dimensions of the cluster"
                raise InputError(f"{shown(kind)} is not a kind of device of this cluster", hint=hint)
            return
        Dimensions((kind,))

    def _device(self, kind: str, position: int, value: object, models: list[str]) -> None:
        reader = Reader(mapping_of(value, "{id: a0, path: /dev/fpga0}"), _DEVICE_KEYS)
        name = reader.read("id", _id, "" if reader.has("id") else str(position))
        path = reader.read("path", _path, "")
        model = reader.read("model", _model, "")
        if not reader.errors:
            models.append(model)
            if model != models[0]:
                what = f"{model or 'no model'} beside {models[0] or 'devices without a model'}"
                reader.wrong(
                    "model", what, "one model for each kind of device on a node; declare another kind for others"
                )
            else:
                self._add(reader, "id", Device(kind=kind, id=name, model=model, path=path))
        _raise(reader.errors)

    def _add(self, reader: Reader, key: str, device: Device) -> None:
        if (device.kind, device.id) in self.ids:
            hint = "a name for each: name: …" if device.kind == DISK_KIND else "each id once"
            reader.wrong(key, f"{device.kind} {device.id} is given twice", hint)
        elif device.path and device.path in self.paths:
            reader.wrong("path", f"{device.path} is another device already", "each path once")
        else:
            self.ids.add((device.kind, device.id))
            self.paths.add(device.path)
            self.devices.append(device)


def _each(values: list[object] | tuple[object, ...], read: Callable[[int, object], None]) -> None:
    errors: list[InputError] = []
    for position, value in enumerate(values):
        try:
            read(position, value)
        except InputError as error:
            errors += [below(one, f"[{position}]") for one in mistakes(error)]
    _raise(errors)


def _raise(errors: list[InputError]) -> None:
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)


def _bandwidth(value: object) -> tuple[int, int, int, int]:
    try:
        amounts = parse_vector({"disk": value}, _PLAIN)
    except InputError as error:
        raise InputError(error.what, hint=error.hint) from None
    read, write, iops_read, iops_write = (amounts[_PLAIN.index[name]] for name in DISK_DIMENSIONS)
    if not read and not write:
        raise InputError(f"{shown(value)} is not a bandwidth of a disk", hint=_BANDWIDTH)
    return read, write, iops_read, iops_write


def _count(value: object) -> int:
    return parse_count(as_number(value), most=MOST_DEVICES)


def _path(value: object) -> str:
    text = as_text(value)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not text.startswith("/") or ".." in parts or ":" in text or not text.isprintable() or len(text) > MAX_PATH:
        raise InputError(f"{shown(value)} is not a path for a device", hint=_ABSOLUTE)
    return "/" + "/".join(parts)


def _id(value: object) -> str:
    text = as_text(value)
    if not text or len(text) > MAX_ID or not text.isprintable() or set(text) & set(" ,:"):
        raise InputError(
            f"{shown(value)} is not a name of a device", hint=f"a word of at most {MAX_ID}, without `,` and `:`"
        )
    return text


def _id_of(path: str) -> str:
    """Return the id of a disk that was given none: the last component of its path."""
    return _id((path.rsplit("/", 1)[-1] or "root").replace(" ", "_").replace(",", "_")[:MAX_ID])


def _model(value: object) -> str:
    text = as_text(value)
    if len(text) > MAX_MODEL or not text.isprintable() or not text.strip():
        raise InputError(f"{shown(value)} is not a model", hint=f"at most {MAX_MODEL} characters, such as V100M16")
    return text


def _data(value: object) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)):
        raise InputError(f"{shown(value)} is not a list", hint="paths that jobs may name: [/data/sets/*]")
    if len(values) > MOST_DATA:
        raise InputError(f"{len(values)} paths are too many", hint=f"at most {MOST_DATA}; /data/* stands for many")
    found: list[str] = []
    _each(values, lambda _, path: found.append(path_of_data(path)))
    return tuple(dict.fromkeys(found))


def path_of_data(value: object) -> str:
    """Parse a pattern of paths."""
    text = as_text(value)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not text.startswith("/") or not parts or ".." in parts or not text.isprintable() or len(text) > MAX_PATH:
        hint = "an absolute path, with * for any part of a name, such as /data/sets/*"
        raise InputError(f"{shown(value)} is not a path of data", hint=hint)
    return "/" + "/".join(parts)
