"""Registration: checks of the node that an executor offers, which is outside input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from cress.core.placing.node_choices import check_choice, check_names
from cress.model.attributes import are_ports, check_attributes, with_labels
from cress.model.devices import capacity_with, check_devices, facts_of
from cress.model.errors import InputError
from cress.model.node import DISK_KIND, Device, Node, Value
from cress.model.resources import DISK_DIMENSIONS, Dimensions, ResourceVector
from cress.model.units import AMOUNT_LIMIT
from cress.model.vectors import names_in, parse_vector
from cress.protocol.messages import FromAgent, Hello
from cress.protocol.versions import agreed

MOST_NAME = 253
MOST_SENTENCES, MOST_SENTENCE = 20, 500
MOST_MODEL = 128
# Maximum number of data paths of a node, and length of one in characters.
MOST_DATA, MOST_PATH = 1_000, 4_096
# Maximum number of characters of all of them together: each registration stores them.
MOST_CHARACTERS = 2**20
# Maximum number of device kinds in one line of the log.
MOST_TOLD = 5


def node_of(
    hello: FromAgent | None, dimensions: Dimensions, racks: Mapping[str, str], warnings: list[str] | None = None
) -> Node:
    """Return the node that an executor offers. Raises InputError.

    ``racks`` by node are for executors that name none themselves. ``warnings`` lists omitted parts, and names in
    ``accepts`` without a meaning yet.
    """
    warnings = [] if warnings is None else warnings
    if not isinstance(hello, Hello):
        raise InputError("the first message is not a Hello", hint="an executor of this version of cress")
    agreed("executor", hello.speaks, hello.oldest, "center")
    if not hello.name or len(hello.name) > MOST_NAME or not hello.name.isprintable() or "/" in hello.name:
        raise InputError(f"{hello.name[:MOST_NAME]!r} is not a name of a node", hint="its host name, for instance")
    check_attributes(hello.attributes, dimensions)
    for what, text in (("rack", hello.rack), ("address", hello.address)):
        if len(text) > MOST_NAME or not text.isprintable() or " " in text or "," in text:
            raise InputError(f"{text[:MOST_NAME]!r} is not a valid {what}", hint="a name without spaces and commas")
    if not are_ports(*hello.ports):
        raise InputError(f"{hello.ports[0]}-{hello.ports[1]} is not a range of ports", hint="within 1 to 65535")
    check_choice(hello.accepts, hello.repels)
    devices = _devices(hello, dimensions, warnings)
    node = Node(
        name=hello.name,
        capacity=_capacity(hello.resource, devices, dimensions),
        rack=hello.rack or racks.get(hello.name, ""),
        address=hello.address,
        attributes=tuple(with_labels(_facts(devices, dimensions), hello.attributes).items()),
        ports=hello.ports,
        unlimited=tuple(text[:MOST_SENTENCE] for text in hello.unlimited[:MOST_SENTENCES]),
        devices=devices,
        data=data_of(hello.name, hello.data, warnings),
        judged=hello.judged,
        accepts=hello.accepts,
        repels=hello.repels,
    )
    try:
        check_names(node, dimensions)
    except InputError as error:
        # Another node may be the first to offer this resource, and the center may set this label.
        warnings.append(f"node {hello.name}: {error}; until there is one it may take no job")
    return node


def undeclared(hello: FromAgent | None, dimensions: Dimensions) -> tuple[str, ...]:
    """Return the new kinds of resources that an executor offers, up to the maximum of the cluster."""
    if not isinstance(hello, Hello):
        return ()
    new: tuple[str, ...] = ()
    kinds = (device.kind for device in hello.devices if device.kind != DISK_KIND)
    for name in dict.fromkeys((*names_in(hello.resource), *kinds)):
        if name not in dimensions.index:
            with suppress(InputError):
                dimensions.with_more((*new, name))
                new += (name,)
    return new


def data_of(name: str, paths: Sequence[str], warnings: list[str]) -> tuple[str, ...]:
    """Return the accepted paths of data, sorted: absolute ones, the first 1,000."""
    different = set(paths)
    possible = sorted(path for path in different if path.startswith("/") and len(path) <= MOST_PATH)
    good: list[str] = []
    room, looked = MOST_CHARACTERS, 0
    for looked, path in enumerate(possible):
        # What does not count any more is not looked at: megabytes of it take long.
        if len(good) == MOST_DATA or len(path) > room:
            bound = "" if len(good) == MOST_DATA else f" (at most {MOST_CHARACTERS} characters together)"
            number = len(good) + len(possible) - looked
            warnings.append(f"node {name} has {number} paths of data; the first {len(good)} count{bound}")
            break
        if path.isprintable():
            good.append(path)
            room -= len(path)
    else:
        looked = len(possible)
    if len(possible) < len(different) or len(good) < looked:
        warnings.append(f"node {name} names data that is not an absolute path; it does not count")
    return tuple(good)


def _devices(hello: Hello, dimensions: Dimensions, warnings: list[str]) -> tuple[Device, ...]:
    known = (DISK_KIND, *dimensions.custom)
    other = sorted({device.kind for device in hello.devices if device.kind not in known})
    if other:
        told = ", ".join(repr(kind[:MOST_NAME]) for kind in other[:MOST_TOLD])
        warnings.append(f"node {hello.name} has devices of kinds that cannot be declared; left out: {told}")
    devices = tuple(device for device in hello.devices if device.kind in known)
    check_devices(devices, dimensions)
    for device in devices:
        _check(device)
    return devices


def _check(device: Device) -> None:
    called = f"{device.kind} {device.id}"
    if len(device.model) > MOST_MODEL or not device.model.isprintable():
        raise InputError(f"the model of {called} is not valid", hint=f"at most {MOST_MODEL} printable characters")
    if device.path and not _is_path(device.path):
        raise InputError(f"the path of {called} is not valid", hint="an absolute one, such as /data/disk1")
    if max(device.bandwidth) >= AMOUNT_LIMIT or min(device.bandwidth) < 0:
        raise InputError(f"the bandwidth of {called} is not valid", hint=f"amounts from 0 to less than {AMOUNT_LIMIT}")
    if device.kind != DISK_KIND and any(device.bandwidth):
        raise InputError(f"{called} has a bandwidth", hint="only disks have one")


def _capacity(resource: str, devices: tuple[Device, ...], dimensions: Dimensions) -> ResourceVector:
    try:
        capacity = capacity_with(parse_vector(resource, dimensions), devices, dimensions)
    except InputError as error:
        what = error.what if error.field in error.what else f"{error.field}: {error.what}"
        raise InputError(f"resource of the node: {what}", hint=error.hint) from None
    if max(capacity) >= AMOUNT_LIMIT:
        disks = ", ".join(DISK_DIMENSIONS)
        raise InputError(
            "the bandwidths of the node's disks are too large together", hint=f"{disks} below {AMOUNT_LIMIT} each"
        )
    return capacity


def _facts(devices: Iterable[Device], dimensions: Dimensions) -> dict[str, Value]:
    """Return the attributes of devices, except those with the name of a resource (such as ``gpus``)."""
    facts: dict[str, Value] = {}
    for name, value in facts_of(devices).items():
        try:
            check_attributes({name: value}, dimensions)
        except InputError:
            continue
        facts[name] = value
    return facts


def _is_path(text: str) -> bool:
    return text.startswith("/") and len(text) <= MOST_PATH and text.isprintable()
