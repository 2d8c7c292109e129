"""What is said of jobs that no device could ever serve, and how tasks come to the devices that are free."""

from __future__ import annotations

from typing import Any

import pytest

from cress.lifecycle.inputs import NodeJoined, Submit
from cress.lifecycle.machine import Machine
from cress.model.devices import capacity_with
from cress.model.job import Job
from cress.model.node import Device, Node
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.vectors import parse_vector
from tests.lifecycle.builders import World

DIMENSIONS = Dimensions(("gpu",))
GPUS = tuple(Device(kind="gpu", id=str(i)) for i in range(2))
DISKS = tuple(
    Device(kind="disk", id=id, bandwidth=(speed, speed, 0, 0)) for id, speed in (("sda", 200), ("nvme", 1_000))
)
LARGER_GPU = (
    "resource: one task is larger than every node (with gpu of at most 2 it fits; "
    "see `cress nodes` for what the nodes offer)"
)
LARGER = "resource: one task is larger than every node (see `cress nodes` for what the nodes offer)"


def world(*devices: Device, resource: str = "<4, 8G>") -> World:
    made = World()
    made.machine = Machine(DIMENSIONS, Options())
    capacity = capacity_with(parse_vector(resource, DIMENSIONS), devices, DIMENSIONS)
    made.step(NodeJoined(node=Node(name="n1", capacity=capacity, devices=devices), boot="b"))
    return made


def asks(resource: str, **more: Any) -> Job:
    values: dict[str, Any] = {"name": "j", "tasks": 1, "group": "", "user": "ann", **more}
    return Job(id=0, request=parse_vector(resource, DIMENSIONS), **values)


@pytest.mark.parametrize(
    ("resource", "sentence"),
    [
        (
            "<1, 1G, gpu=1.5>",
            (
                "resource: gpu=1.5 is neither a whole number nor less than one, and each gpu is a device of its own"
                " (less than one, or whole ones: gpu=1, gpu=2)"
            ),
        ),
        (
            "<1, 1G, 0, 1100>",
            (
                "resource: a task has one disk, and no disk of a node that is large enough is that fast (see "
                "`cress nodes NAME`)"
            ),
        ),
        ("<1, 1G, gpu=3>", LARGER_GPU),
        ("<1, 1G, 0, 1300>", LARGER),
        ("<5, 1G, gpu=1.5>", LARGER),
    ],
)
def test_a_job_that_no_device_could_serve_is_told_why(resource: str, sentence: str) -> None:
    assert world(*GPUS, *DISKS).refuse(Submit(jobs=(asks(resource),))) == sentence


def test_amounts_without_devices_may_be_had_in_any_parts() -> None:
    made = world(resource="<4, 8G, 0, 1200, gpu=2>")
    made.submit(asks("<1, 1G, 0, 1100, gpu=1.5>"))
    assert [each.devices for each in made.last.launches] == [()]
