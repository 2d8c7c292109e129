"""Details of nodes as text: devices with their users, measured load, data paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cress.cli.tables import Cell, TableColumn, state

if TYPE_CHECKING:
    from cress.client import DeviceUser, DeviceView, HeldDevice, NodeView

DISK = "disk"
WHOLE = 1000
# Most devices of a table, tasks of a device, and paths of data that are shown; ``--json`` has all.
MOST_DEVICES, MOST_TASKS, MOST_PATHS = 16, 4, 5
# A node is shown as busy from this share on, and as nearly busy from the other.
BUSY, NEARLY = 0.9, 0.7

COLUMN = TableColumn("DEVICES", gives=True)
DISKS = (
    TableColumn("DISK", gives=True),
    TableColumn("PATH", gives=True),
    TableColumn("BANDWIDTH", right=True),
    TableColumn("IDLE", right=True),
    TableColumn("STATE"),
    TableColumn("TASKS", gives=True),
)
_SPEEDS = ("disk_read", "disk_write", "iops_read", "iops_write")


def tables(devices: Sequence[DeviceView]) -> list[tuple[Sequence[TableColumn], list[list[Cell]], str]]:
    """Return a table of the devices without the disks and one of the disks, unless they are empty.

    Each has columns, rows, and a line about the devices left out.
    """
    disks = [device for device in devices if device.kind == DISK]
    others = [device for device in devices if device.kind != DISK]
    found: list[tuple[Sequence[TableColumn], list[list[Cell]], str]] = []
    if others:
        shown, left = _cut(others)
        models, paths = any(device.model for device in others), any(device.path for device in others)
        columns = [TableColumn("DEVICE", gives=True), TableColumn("STATE"), TableColumn("FREE", right=True)]
        columns[1:1] = [*[TableColumn("MODEL", gives=True)] * models, *[TableColumn("PATH", gives=True)] * paths]
        columns.append(TableColumn("TASKS", gives=True))
        rows = []
        for device in shown:
            row: list[Cell] = [
                f"{device.kind} {device.id}",
                *[device.model or "-"] * models,
                *[device.path or "-"] * paths,
            ]
            rows.append([*row, state(device.state), share(device.free), _tasks(device)])
        found.append((columns, rows, left))
    if disks:
        shown, left = _cut(disks)
        rows = []
        for device in shown:
            speeds = [bandwidth(device.bandwidth), bandwidth(device.idle)]
            rows.append([device.id, device.path or "-", *speeds, state(device.state), _tasks(device)])
        found.append((DISKS, rows, left))
    return found


def devices(held: Iterable[HeldDevice]) -> str:
    """Return devices for a cell: ``gpu 0,1; disk sda shared``, a part of one as ``gpu 0 (0.46)``; ``-`` for none."""
    kinds: dict[str, list[str]] = {}
    for device in held:
        kinds.setdefault(device.kind, []).append(_one(device))
    return "; ".join(f"{kind} {','.join(texts)}" for kind, texts in kinds.items()) or "-"


def with_devices(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], held: Sequence[Iterable[HeldDevice]], at: int
) -> tuple[list[TableColumn], list[list[Cell]]]:
    """Return a table with one more column before column ``at``, if a row has devices: ``held`` by row."""
    texts = [devices(device) for device in held]
    if all(text == "-" for text in texts):
        return [*columns], [[*row] for row in rows]
    told = [[*row[:at], text, *row[at:]] for row, text in zip(rows, texts, strict=True)]
    return [*columns[:at], COLUMN, *columns[at:]], told


def load(node: NodeView) -> str:
    """Return the measured load of a node as a line; empty if it is not measured."""
    if node.load is None:
        return ""
    told = node.load
    parts = [f"{name} {percent(getattr(told, name))}" for name in ("cpu", "memory", "network", "disk")]
    parts[1] += f" ({size(told.free_memory)} free)"
    if told.full:
        parts.append(f"its disk is {percent(told.full)} full")
    return ", ".join(parts) + ("" if node.judged else "; load is ignored on this node (--no-overload)")


def load_cell(node: NodeView) -> Cell:
    """Return the measured load of a node for a cell: the highest share, and its dimension."""
    if node.load is None:
        return "-"
    name = max(("cpu", "memory", "network", "disk"), key=lambda dimension: getattr(node.load, dimension))
    highest = getattr(node.load, name)
    style = "red" if highest >= BUSY else "yellow" if highest >= NEARLY else ""
    return f"{name} {percent(highest)}", style


def data(paths: Sequence[str]) -> str:
    """Return paths of data as a line, shortened if there are many."""
    more = len(paths) - MOST_PATHS
    told = ", ".join(paths[:MOST_PATHS])
    return f"{told} and {more:,} more" if more > 0 else told


def bandwidth(speeds: Mapping[str, str]) -> str:
    """Return the bandwidth of a disk as in a resource vector: ``200M``, or ``2G:1G:500K:200K``."""
    amounts = [speeds.get(name, "0") for name in _SPEEDS]
    if amounts[0] == amounts[1] and amounts[2:] == ["0", "0"]:
        return amounts[0]
    while amounts[-1] == "0":
        amounts.pop()
    return ":".join(amounts)


def share(thousandths: int) -> str:
    """Return thousandths as a part of one: ``0.46``, ``1``."""
    return f"{thousandths / WHOLE:g}"


def percent(part: float) -> str:
    """Return a share as a percentage: ``37 %``."""
    return f"{part * 100:.0f} %"


def size(count: int) -> str:
    """Return rounded bytes: ``7.5G``, ``512M``."""
    return f"{count / 2**30:.1f}G" if count >= 2**30 else f"{count / 2**20:.0f}M"


def _cut(devices: Sequence[DeviceView]) -> tuple[list[DeviceView], str]:
    """Return a limited number of devices, preferably those with tasks, and a text about the others."""
    if len(devices) <= MOST_DEVICES:
        return list(devices), ""
    first = sorted(range(len(devices)), key=lambda k: (not devices[k].users, k))[:MOST_DEVICES]
    shown = [devices[k] for k in sorted(first)]
    others = [device.state for k, device in enumerate(devices) if k not in first]
    words = list(dict.fromkeys(others))
    states = ": " + ", ".join(f"{others.count(word)} {word}" for word in words) if len(words) > 1 else f", {words[0]}"
    return shown, f"and {len(others)} more{states} (--json has all)"


def _tasks(device: DeviceView) -> str:
    told = " ".join(_user(task, device.kind) for task in device.tasks[:MOST_TASKS])
    more = device.users - min(len(device.tasks), MOST_TASKS)
    return f"{told} and {more} more" if more else told or "-"


def _user(user: DeviceUser, kind: str) -> str:
    task = f"{user.job}.{user.task}"
    return task if kind == DISK or user.amount == WHOLE else f"{task} ({share(user.amount)})"


def _one(device: HeldDevice) -> str:
    if device.kind == DISK:
        return device.id if device.amount else f"{device.id} (shared)"
    return device.id if device.amount == WHOLE else f"{device.id} ({share(device.amount)})"
