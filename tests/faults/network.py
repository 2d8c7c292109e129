"""Connections: what is sent arrives in order, late, or not at all with everything behind it.

As with TCP, one connection neither loses, doubles nor reorders anything while it stands. What its two ends know of it
differs: an end may hold open what the other one has given up, and what was sent into a cut cable arrives when the
cable is mended, if anybody still listens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cress.model.times import MILLISECOND
from tests.faults.world import Mortal, World

if TYPE_CHECKING:
    from tests.faults.host import Host

# What travels besides messages.
PING: Final = "ping"
PONG: Final = "pong"
FIN: Final = "fin"
RST: Final = "rst"
Frame = bytes | str


class Cable:
    """What lies between two computers. ``delay`` is microseconds; a way that is ``cut`` lets nothing through."""

    def __init__(self, world: World, delay: int) -> None:
        self.world = world
        self.delay = delay
        self.cut = [False, False]  # from the caller to the called, and back
        self.pipes: list[Pipe] = []

    @property
    def whole(self) -> bool:
        """Whether both ways are open."""
        return not (self.cut[0] or self.cut[1])

    def mend(self) -> None:
        """Let everything through again, and what waits first."""
        self.cut = [False, False]
        for pipe in self.pipes:
            pipe.arm()

    def latency(self) -> int:
        """How long a message takes, this time."""
        return int(self.delay * (0.5 + self.world.random.random()))


class Pipe:
    """One direction of a connection."""

    __slots__ = ("armed", "cable", "frames", "target", "way")

    def __init__(self, cable: Cable, way: int) -> None:
        self.cable = cable
        self.way = way
        self.frames: deque[Frame] = deque()
        self.armed = False
        self.target: End | None = None

    def push(self, frame: Frame) -> None:
        self.frames.append(frame)
        self.arm()

    def arm(self) -> None:
        if not self.armed and self.frames and not self.cable.cut[self.way]:
            self.armed = True
            self.cable.world.after(self.cable.latency(), None, self.deliver)

    def deliver(self) -> None:
        self.armed = False
        if self.cable.cut[self.way] or not self.frames:
            return
        frame = self.frames.popleft()
        self.arm()
        assert self.target is not None
        self.target.receive(frame)


class End:
    """One end of a connection, held by a process."""

    def __init__(self, owner: Mortal, host: Host, out: Pipe) -> None:
        self.owner = owner
        self.host = host
        self.out = out
        self.open = True
        self.on_message: Callable[[bytes], None] = _nothing
        self.on_close: Callable[[], None] = _nothing
        self.on_pong: Callable[[], None] = _nothing
        self.back: Pipe | None = None
        self.peer: Mortal | None = None  # the process at the other end, where that matters
        host.ends.append(self)

    def send(self, frame: Frame) -> None:
        """Send a message behind those before; nothing happens on an end that is closed."""
        if self.open:
            self.out.push(frame)

    def close(self) -> None:
        """Say goodbye: what was sent before still arrives."""
        if self.open:
            self.vanish()
            self.out.push(FIN)

    def vanish(self) -> None:
        """The computer is gone: nobody says goodbye."""
        if self.open:
            self.open = False
            self.host.ends.remove(self)

    def receive(self, frame: Frame) -> None:
        """What arrives from the other end."""
        if not self.open:
            # A computer that is up answers that there is no such connection.
            if self.host.up and frame not in (FIN, RST):
                self.out.push(RST)
        elif self.owner.held is not None:
            self.owner.held.append((self.receive, (frame,)))
        elif frame in (FIN, RST):
            self.vanish()
            if not self.owner.gone:
                self.on_close()
        elif frame == PING:
            self.out.push(PONG)
        elif frame == PONG:
            self.on_pong()
        else:
            assert isinstance(frame, bytes)
            self.on_message(frame)


def connect(cable: Cable, caller: Mortal, host: Host, called: Mortal, there: Host) -> tuple[End, End]:
    """A connection between two processes: the caller's end and the other one."""
    up, down = Pipe(cable, 0), Pipe(cable, 1)
    mine, theirs = End(caller, host, up), End(called, there, down)
    up.target, down.target = theirs, mine
    mine.back, theirs.back = down, up
    cable.pipes = [pipe for pipe in cable.pipes if pipe.frames or (pipe.target is not None and pipe.target.open)]
    cable.pipes += (up, down)
    return mine, theirs


def sever(mine: End, *, tell_me: bool, tell_them: bool) -> None:
    """Something between the ends drops the connection with all that is on its way, and tells them or not."""
    back = mine.back
    assert back is not None
    for pipe, told in ((mine.out, tell_them), (back, tell_me)):
        pipe.frames.clear()
        target = pipe.target
        if target is None:
            continue  # it is dead already
        if told:
            pipe.push(RST)
        else:
            # This end still believes in it: what it sends is answered by nobody.
            target.out = Pipe(Cable(target.out.cable.world, MILLISECOND), 0)
            target.out.cable.cut = [True, True]


def _nothing(*_: object) -> None:
    pass
