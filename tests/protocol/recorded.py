"""Messages and a journal of release 0.1.0 (protocol 5), recorded with its code, and what they said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cress.model.job import JobType, OnPartition
from cress.model.node import Allocated, Device, Load, Supervisor
from cress.model.reports import Cause, Checked, Ended, Started, Usage
from cress.model.run import Check, File, Host, Run
from cress.protocol import messages as m

_FILE = json.loads(Path(__file__).with_name("protocol5.json").read_text(encoding="utf-8"))

STARTED = Started(attempt=7, at=1_700_000_000_000_000, pid=4242)
ENDED = Ended(
    attempt=8, cause=Cause.OUTPUTS, code=3, started=5, at=9, error="the disk is full", usage=Usage(10, 20), port=0
)
CHECKED = Checked(attempt=7, at=11, ready=True, alive=False, why="no answer")
RUN = Run(
    job=3,
    command=("/bin/sh", "-c", "true"),
    name="etl",
    group="g",
    user="u",
    tasks=2,
    environment=(("A", "b"),),
    directory="/tmp",
    memory_limit=1,
    time_limit=2,
    stop_grace=3,
    on_partition=OnPartition.KEEP,
    ports=(("web", 0),),
    type=JobType.SERVICE,
    family=2,
    runtime="container",
    limits=(("cpu", 1000),),
    pids=5,
    root="/r",
    run_as="x",
    files=(File(source="/a", path="b", mode=0o644, unpack=True),),
    outputs=(File(source="/c", path="d"),),
    log_size=6,
    log_copy="/l",
    ready=Check(port="web"),
    alive=Check(url="/", on="web", command=(), interval=1, timeout=2, delay=3, failures=4),
    source="{}",
)
DISK = Device(kind="disk", id="d", path="/disk")
GPU = Device(kind="gpu", id="GPU-1", path="/dev/nvidia0", model="A100")
HELLO = m.Hello(
    version=5,
    name="n1",
    resource="<4, 8G>",
    boot="b",
    rack="r1",
    address="10.0.0.1",
    attributes={"Python": "3.11", "CPUs": 4, "ssd": True},
    ports=(20000, 29999),
    listening=(22, 80),
    reports=(STARTED, ENDED, CHECKED),
    sent=5,
    bound=True,
    epoch=4,
    cluster="c",
    supervisor=Supervisor(1, 2, "/x/attempts"),
    unlimited=("no",),
    devices=(DISK, GPU),
    data=("/data/a",),
    judged=False,
)
INVENTORY = m.Inventory(
    boot="b",
    pid=1,
    ticks=2,
    attempts="/x/attempts",
    reports=(STARTED, ENDED),
    bound=True,
    epoch=4,
    cluster="c",
    ports={7: (20000,)},
    container="crun",
    unlimited=("no",),
)
LAUNCHES = m.Launches(
    epoch=4,
    runs=(RUN,),
    launches=(m.Launch(9, 3, 1, (20001,), (Allocated("gpu", "GPU-1", 500),)), m.Launch(10, 3, 0)),
    gangs=(m.Gang(3, (Host("10.0.0.1", (20001,)), Host("10.0.0.2"))),),
    address="10.0.0.1",
    rack="r1",
)

MESSAGES: dict[str, list[Any]] = {
    "from agent": [
        HELLO,
        m.Beat(sent=6),
        m.Reports(reports=(STARTED, ENDED, CHECKED), leaving=True),
        m.Ports(ports=(22,)),
        m.Load(load=Load(1, 2, 3, 4, 5)),
        m.Data(data=("/data/a",)),
        m.LogData(id=1, data=b"x", over=True, error="e", gone=2, kept=3),
        m.ExecData(id=1, data=b"y", error=True, taken=4),
        m.ExecOver(id=1, code=2, why="w"),
    ],
    "from center": [
        m.Welcome(epoch=4, cluster="c", name="prod", sent=5, term=55, kinds=("gpu",)),
        m.Term(epoch=4, sent=6, term=55),
        m.Refused(what="no", hint="yes", permanent=True),
        LAUNCHES,
        m.Stops(epoch=4, stops=(m.Stop(9, 5_000_000),)),
        m.Signal(epoch=4, attempt=9, number=10),
        m.Durable(epoch=4, attempts=(8,)),
        m.ReadLog(id=1, attempt=9, stream="stdout", offset=3, limit=4, wait=5),
        m.Exec(id=2, attempt=9, command=("ls",), environment=(("A", "b"),), terminal=(24, 80)),
        m.ExecInput(id=2, data=b"z", over=True, taken=6),
        m.ExecSize(id=2, rows=3, columns=4),
        m.ExecOver(id=2),
    ],
    "to supervisor": [m.Shutdown(grace=7, keep=True), m.Devices(devices=(DISK,))],
    "from supervisor": [INVENTORY],
}


def recorded(way: str, message: object) -> bytes:
    """The bytes of a message, as they were on the wire."""
    return bytes.fromhex(_FILE[way][type(message).__name__])


def journal() -> bytes:
    """A journal of version 1: attempt 7 runs, attempt 8 has ended as ``ENDED`` says, 1 and 2 are forgotten."""
    return bytes.fromhex(_FILE["journal"])
