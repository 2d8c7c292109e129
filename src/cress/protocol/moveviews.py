"""Moves of running tasks as the API shows them: plans, and rounds that carry them out."""

from __future__ import annotations

import msgspec

from cress.protocol.views import View


class MoveView(View, frozen=True):
    """A task that is moved from ``node`` to ``to``; ``lost`` is the work that it begins anew, in core hours,
    ``lost_devices`` in hours of devices.

    ``job`` and ``task`` are as people call them (of a member of a service: the service and its index); ``job`` is
    ``None``, and ``name`` empty, for who may not see that job. ``goal`` is spread, devices, nodes or place.
    """

    attempt: int
    job: int | None
    task: int | None
    name: str
    group: str
    node: str
    to: str
    goal: str
    lost: float = 0.0
    lost_devices: float = 0.0


class FreeView(View, frozen=True):
    """The number of nodes that take tasks and have none, and of their devices that nothing uses."""

    nodes: int
    devices: int
    all_nodes: int
    all_devices: int


class DeviceName(View, frozen=True):
    """A device of a node."""

    node: str
    kind: str
    id: str


class StaysView(View, frozen=True):
    """The number of running tasks that are not movable for a reason."""

    reason: str
    tasks: int


class PlanView(View, frozen=True):
    """A plan: its ``moves`` in order, what they free, and what they cost. ``lost`` is in core hours, ``lost_devices``
    in hours of devices, ``movable`` the number of tasks that may move.

    ``nodes`` and ``devices`` become free; ``spread`` are the services whose tasks are on more nodes then. ``job`` is
    the waiting job that starts on ``place`` (tasks by node); without a place there are no moves that let it start.
    ``note`` says why there is nothing to move.
    """

    moves: tuple[MoveView, ...]
    before: FreeView
    after: FreeView
    movable: int
    stays: tuple[StaysView, ...] = ()
    nodes: tuple[str, ...] = ()
    devices: tuple[DeviceName, ...] = ()
    spread: tuple[int, ...] = ()
    job: int | None = None
    place: dict[str, int] = msgspec.field(default_factory=dict)
    lost: float = 0.0
    lost_devices: float = 0.0
    note: str = ""


class RoundView(View, frozen=True):
    """A round of moves: ``state`` is moving, done or stopped; ``problem`` why it stopped. Times are seconds since the
    epoch.

    ``done``, ``under_way`` and ``left`` are its moves; those that were ``skipped`` are of tasks that had ended by
    themselves. ``by`` is empty for rounds of the option ``rebalance``. The number is 0 if nothing was ever moved.
    """

    number: int = 0
    state: str = "done"
    by: str = ""
    begun: float | None = None
    ended: float | None = None
    job: int | None = None
    done: tuple[MoveView, ...] = ()
    under_way: tuple[MoveView, ...] = ()
    left: tuple[MoveView, ...] = ()
    skipped: tuple[MoveView, ...] = ()
    problem: str = ""
