"""Devices of nodes, and the amounts and attributes derived from them (design note 0007)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cress.model.attributes import plain
from cress.model.errors import InputError
from cress.model.node import DISK_KIND, Allocated, Device, Node, Value
from cress.model.resources import DISK_DIMENSIONS, Dimensions, ResourceVector
from cress.model.units import format_amount

# Maximum number of devices of a node: the devices of a task are a mask of this many bits.
MOST_DEVICES = 62
# One device of any kind except disks, in thousandths.
WHOLE = 1000
MAX_ID = 64
# The attribute with the number of disks of a node.
DISKS = "Disks"
# Prefix of the names of disks that are only counted; a number follows.
_COUNTED = "disk"


def check_devices(devices: Sequence[Device], dimensions: Dimensions) -> None:
    """Raise InputError unless a node of a cluster with these dimensions may have these devices."""
    if len(devices) > MOST_DEVICES:
        raise InputError(f"{len(devices)} devices are too many for a node", hint=f"at most {MOST_DEVICES}")
    seen: set[tuple[str, str]] = set()
    models: dict[str, str] = {}
    for device in devices:
        kind = device.kind
        if kind != DISK_KIND and kind not in dimensions.custom:
            known = ", ".join((DISK_KIND, *dimensions.custom))
            raise InputError(f"{kind!r} is not a kind of device of this cluster", hint=f"one of {known}")
        if not device.id or len(device.id) > MAX_ID or not device.id.isprintable() or set(device.id) & set(" ,:"):
            raise InputError(f"{device.id[:MAX_ID]!r} is not an id of a device", hint="a word without `,` and `:`")
        if (kind, device.id) in seen:
            raise InputError(f"{kind} {device.id} is given twice", hint="each id once")
        seen.add((kind, device.id))
        if kind != DISK_KIND and models.setdefault(kind, device.model) != device.model:
            hint = "one model for each kind of device on a node; declare another kind for others"
            raise InputError(f"{kind} {device.id} is a {device.model or 'device without model'}", hint=hint)
        if kind == DISK_KIND and min(device.bandwidth) < 0:
            raise InputError(f"the bandwidth of disk {device.id} is negative", hint="amounts of 0 or more")


def capacity_with(capacity: ResourceVector, devices: Sequence[Device], dimensions: Dimensions) -> ResourceVector:
    """Return the capacity of a node with these devices; amounts that follow from devices may be given or be 0.

    Raises InputError for an amount that contradicts the devices.
    """
    amounts = dict(zip(dimensions.names, capacity, strict=True))
    for name, amount in amounts_of(devices).items():
        if amounts[name] not in (0, amount):
            given, known = (format_amount(value, dimensions.measure(name)) for value in (amounts[name], amount))
            raise InputError(
                f"{name} is {given}, but its devices have {known}", hint=f"{known}, or nothing", field=name
            )
        amounts[name] = amount
    return tuple(amounts.values())


def amounts_of(devices: Iterable[Device]) -> dict[str, int]:
    """Return the total amounts of these devices by dimension."""
    amounts: dict[str, int] = {}
    for device in devices:
        if device.kind == DISK_KIND:
            for name, amount in zip(DISK_DIMENSIONS, device.bandwidth, strict=True):
                amounts[name] = amounts.get(name, 0) + amount
        else:
            amounts[device.kind] = amounts.get(device.kind, 0) + WHOLE
    return amounts


def facts_of(devices: Iterable[Device]) -> dict[str, Value]:
    """Return the attributes of a node that follow from its devices: ``Disks``, ``GPUs``, ``GPUModel``, and similar ones
    for other kinds.
    """
    facts: dict[str, Value] = {}
    for device in devices:
        name = called(device.kind)
        count = DISKS if device.kind == DISK_KIND else f"{name}s"
        facts[count] = int(facts.get(count, 0)) + 1
        if device.kind != DISK_KIND and device.model:
            facts[f"{name}Model"] = device.model
    return facts


def called(kind: str) -> str:
    """Return the displayed name of a kind of device: GPU, FPGA, Accelerator."""
    return kind.upper() if len(kind) <= 4 else kind.capitalize()


def devices_of(node: Node, dimensions: Dimensions) -> tuple[Device, ...]:
    """Return the devices of a node; a node with only a number of disks divides its disk amounts among them."""
    if any(device.kind == DISK_KIND for device in node.devices):
        return node.devices
    count = next((value for name, value in node.attributes if plain(name) == plain(DISKS)), 0)
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
        return node.devices
    count = min(count, MOST_DEVICES - len(node.devices))
    share = tuple(node.capacity[dimensions.index[name]] // count for name in DISK_DIMENSIONS) if count else ()
    disks = (Device(kind=DISK_KIND, id=f"{_COUNTED}{i}", bandwidth=share) for i in range(count))  # type: ignore[arg-type]
    return (*node.devices, *disks)


def is_counted(device: Allocated) -> bool:
    """Return whether a device looks like a disk of a node with only a number of disks."""
    return device.kind == DISK_KIND and device.id.removeprefix(_COUNTED).isdecimal()


def written(devices: Iterable[Allocated]) -> tuple[str, ...]:
    """Format devices for the record of an attempt: ``gpu:0``, a part as ``gpu:0:460``, a shared disk as
    ``disk:sda:0``.
    """
    return tuple(
        f"{device.kind}:{device.id}" + (f":{device.amount}" if device.amount != WHOLE else "") for device in devices
    )


def read_back(text: str) -> Allocated:
    """Parse one device in the format of ``written``."""
    kind, _, rest = text.partition(":")
    name, _, amount = rest.partition(":")
    return Allocated(kind, name, int(amount) if amount else WHOLE)
