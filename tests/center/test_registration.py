"""What an executor says of its node: what becomes of it, and what is refused with which words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cress.model.errors import InputError
from cress.model.node import Device, Node
from cress.model.resources import Dimensions
from cress.protocol.messages import VERSION, Beat, Hello
from cress.shell.center.registration import MOST_DATA, node_of, undeclared

DIMENSIONS = Dimensions(("gpu", "fpga"))
HELLO = Hello(version=VERSION, name="n1", resource="<4, 8G>", boot="b")
GPUS = tuple(Device(kind="gpu", id=str(i), model="V100M16") for i in range(2))
FAST = Device(kind="disk", id="nvme", path="/data/disk2", bandwidth=(2_000, 1_000, 50, 20))
SLOW = Device(kind="disk", id="sda", path="/data/disk1", bandwidth=(200, 200, 0, 0))


def node(dimensions: Dimensions = DIMENSIONS, warnings: list[str] | None = None, **said: Any) -> Node:
    return node_of(msgspec.structs.replace(HELLO, **said), dimensions, {"n1": "r7"}, warnings)


def test_devices_are_amounts_and_facts_of_their_node() -> None:
    made = node(devices=(*GPUS, FAST, SLOW), data=("/b", "/a", "/b"), judged=False)
    assert made.capacity == (4_000, 8 * 2**30, 0, 2_200, 1_200, 50, 20, 2_000, 0)
    assert dict(made.attributes) == {"GPUs": 2, "GPUModel": "V100M16", "Disks": 2}
    assert (made.devices, made.data, made.judged) == ((*GPUS, FAST, SLOW), ("/a", "/b"), False)
    assert made.rack == "r7"


def test_a_node_may_choose_its_jobs() -> None:
    made = node(accepts='Job.Group in ("lab", web)', repels=("gpu",))
    assert (made.accepts, made.repels) == ('Job.Group in ("lab", web)', ("gpu",))
    with pytest.raises(InputError, match="accepts: at the end: a value is expected"):
        node(accepts="Job.User =")
    with pytest.raises(InputError, match="repels: 'a b' is not a name"):
        node(repels=("a b",))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Job.TPU > 0", "node n1: accepts: at character 1, `Job.TPU > 0`: a job has no Job.TPU (after `Job.`: User, "),
        (
            "Job.User = ann",
            "node n1: accepts: at character 12, `ann`: the node has no attribute ann (a text must be in quotes",
        ),
    ],
)
def test_a_name_that_means_nothing_yet_is_told(text: str, told: str) -> None:
    warnings: list[str] = []
    assert node(accepts=text, warnings=warnings).accepts == text
    assert warnings[0].startswith(told)
    assert warnings[0].endswith("; until there is one it may take no job")
    node(accepts="Job.GPU > 0", warnings=warnings)
    assert len(warnings) == 1


def test_the_amounts_may_be_said_too_and_labels_count_more_than_what_devices_are() -> None:
    made = node(devices=GPUS, resource="<4, 8G, gpu=2>", attributes={"gpu_model": "mine", "zone": "eu"})
    assert made.capacity[7] == 2_000
    assert dict(made.attributes) == {"GPUs": 2, "gpu_model": "mine", "zone": "eu"}


def test_kinds_that_cannot_be_declared_are_left_out_with_a_warning() -> None:
    odd = tuple(Device(kind=f"odd\n{i}", id="0") for i in range(200))
    hello = msgspec.structs.replace(HELLO, devices=(*GPUS, *odd, SLOW), resource="<4, 8G, slots=3, disk=200>")
    dimensions = Dimensions(("fpga",))
    assert undeclared(hello, dimensions) == ("slots", "gpu")
    warnings: list[str] = []
    made = node_of(hello, dimensions.with_more(("slots", "gpu")), {}, warnings)
    assert made.devices == (*GPUS, SLOW)
    assert dict(made.attributes) == {"GPUs": 2, "GPUModel": "V100M16", "Disks": 1}
    (line,) = warnings
    assert line.startswith("node n1 has devices of kinds that cannot be declared; left out: 'odd\\n0', 'odd\\n1'")
    assert len(line) < 200


def test_a_cluster_takes_as_many_kinds_as_it_can_have() -> None:
    many = tuple(Device(kind=f"kind{i}", id="0") for i in range(40))
    assert len(undeclared(msgspec.structs.replace(HELLO, devices=many), Dimensions())) == 17


def test_a_fact_that_would_be_called_as_a_resource_is_left_out() -> None:
    made = node(Dimensions(("gpu", "gpus")), devices=GPUS)
    assert dict(made.attributes) == {"GPUModel": "V100M16"}


def test_of_data_absolute_paths_count_and_not_too_many() -> None:
    warnings: list[str] = []
    bad = ("relative", "/a\nb", "/" + "x" * 4_096, "/good dir")
    assert node(warnings=warnings, data=bad).data == ("/good dir",)
    many = node(warnings=warnings, data=tuple(f"/d/{i:05}" for i in range(MOST_DATA + 5))).data
    assert many == tuple(f"/d/{i:05}" for i in range(MOST_DATA))
    assert [line.partition(" ")[2] for line in warnings] == [
        "n1 names data that is not an absolute path; it does not count",
        "n1 has 1005 paths of data; the first 1000 count",
    ]


def test_paths_of_data_count_as_long_as_their_characters_fit() -> None:
    warnings: list[str] = []
    made = node(data=tuple(f"/{number:04}/{'d' * 3_994}" for number in range(500)), warnings=warnings)
    assert len(made.data) == 262
    assert warnings == ["node n1 has 500 paths of data; the first 262 count (at most 1048576 characters together)"]


def disk(**other: Any) -> tuple[Device, ...]:
    return (msgspec.structs.replace(SLOW, **other),)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another amount": (
        {"devices": GPUS, "resource": "<4, 8G, gpu=3>"},
        "resource of the node: gpu is 3, but its devices have 2 (2, or nothing)",
    ),
    "another disk": (
        {"devices": (SLOW,), "resource": "<4, 8G, 0, 1K>"},
        "resource of the node: disk_read is 1K, but its devices have 200 (200, or nothing)",
    ),
    "no amount": (
        {"resource": "<x, 8G>"},
        "resource of the node: cpu: 'x' does not begin with a number (a number such as 4, 2.5 or 500m)",
    ),
    "63 devices": (
        {"devices": tuple(Device(kind="gpu", id=str(i)) for i in range(63))},
        "63 devices are too many for a node (at most 62)",
    ),
    "one id twice": ({"devices": (*GPUS, GPUS[0])}, "gpu 0 is given twice (each id once)"),
    "no id": ({"devices": disk(id="")}, "'' is not an id of a device (a word without `,` and `:`)"),
    "a long id": (
        {"devices": disk(id="x" * 65)},
        f"{'x' * 64!r} is not an id of a device (a word without `,` and `:`)",
    ),
    "a negative bandwidth": (
        {"devices": disk(bandwidth=(-1, 0, 0, 0))},
        "the bandwidth of disk sda is negative (amounts of 0 or more)",
    ),
    "too fast": (
        {"devices": disk(bandwidth=(0, 0, 2**50, 0))},
        f"the bandwidth of disk sda is not valid (amounts from 0 to less than {2**50})",
    ),
    "too large together": (
        {"devices": disk(bandwidth=(2**50 - 1, 0, 0, 0)) + disk(id="b", bandwidth=(1, 0, 0, 0))},
        (
            "the bandwidths of the node's disks are too large together "
            f"(disk_read, disk_write, iops_read, iops_write below {2**50} each)"
        ),
    ),
    "a GPU with bandwidth": (
        {"devices": (Device(kind="gpu", id="0", bandwidth=(1, 0, 0, 0)),)},
        "gpu 0 has a bandwidth (only disks have one)",
    ),
    "a path that is none": (
        {"devices": disk(path="data")},
        "the path of disk sda is not valid (an absolute one, such as /data/disk1)",
    ),
    "a model of two lines": (
        {"devices": (Device(kind="gpu", id="0", model="a\nb"),)},
        "the model of gpu 0 is not valid (at most 128 printable characters)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence(case: str) -> None:
    said, sentence = REFUSED[case]
    with pytest.raises(InputError) as refused:
        node(**said)
    assert str(refused.value) == sentence


def test_only_a_hello_is_one() -> None:
    with pytest.raises(InputError, match="not a Hello"):
        node_of(Beat(sent=1), DIMENSIONS, {})
