"""Devices in cluster files: nodes with disks, GPUs and data one by one; every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.model.errors import InputError
from cress.model.node import Device
from cress.simulator.clusterfile import load_cluster

HEAD = "dimensions: [gpu, fpga]\nnodes:\n  - name: n\n    count: 2\n"
NODE = """\
    resource: <8, 32G, 1G>
    attributes: {GCC: 4.10}
    disks:
      - {path: /data/disk1, bandwidth: 200M}
      - {name: nvme, bandwidth: 2G:1G:500K:200K}
    devices:
      gpu: {count: 2, model: V100M16}
      fpga: [{id: a0}]
    data: [/data/sets/a]
"""


def test_a_node_has_its_devices_one_by_one_and_the_amounts_and_facts_that_they_stand_for(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEAD + NODE)
    cluster = load_cluster(path)
    node = cluster.nodes[1]
    assert node.name == "n-2"
    assert node.devices == (
        Device(kind="disk", id="disk1", path="/data/disk1", bandwidth=(200_000_000, 200_000_000, 0, 0)),
        Device(kind="disk", id="nvme", bandwidth=(2_000_000_000, 1_000_000_000, 500_000, 200_000)),
        Device(kind="gpu", id="0", model="V100M16"),
        Device(kind="gpu", id="1", model="V100M16"),
        Device(kind="fpga", id="a0"),
    )
    assert node.capacity == cluster.dimensions.vector(
        cpu=8000, memory=32 * 2**30, network=10**9, gpu=2000, fpga=1000,
        disk_read=2_200_000_000, disk_write=1_200_000_000, iops_read=500_000, iops_write=200_000,
    )  # fmt: skip
    assert dict(node.attributes) == {"GCC": "4.10", "Disks": 2, "GPUs": 2, "GPUModel": "V100M16", "FPGAs": 1}
    assert node.data == ("/data/sets/a",)


def test_amounts_that_devices_stand_for_may_be_written_too(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEAD + "    resource: {cpu: 8, gpu: 2}\n    devices: {gpu: 2}\n")
    assert load_cluster(path).nodes[0].capacity[-2] == 2000


MISTAKES = {
    "an unknown word": ("    devices:\n      gpu: {count: 2, modl: A10}\n", ":7: devices.gpu.modl: unknown key 'modl'"),
    "a kind that the cluster has not": ("    devices: {npu: 2}\n", ":6: devices.npu: 'npu' is not a kind of device"),
    "a disk without bandwidth": ("    disks:\n      - {path: /a}\n", ":7: disks[0].bandwidth: is missing"),
    "two models": (
        "    devices:\n      gpu:\n        - {id: 0, model: A10}\n        - {id: 1, model: T4}\n",
        ":9: devices.gpu[1].model: T4 beside A10",
    ),
    "another amount than that of the devices": (
        "    devices: {gpu: 3}\n",
        ":5: resource.gpu: gpu is 2, but its devices have 3 (3, or nothing)",
    ),
    "too many": ("    devices: {gpu: 63}\n", ":6: devices.gpu.count: 63 is too large"),
    "a pattern, where there are no files": ("    data: ['/data/*']\n", ":6: data[0]: '/data/*' is a pattern"),
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_its_line_and_field(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(HEAD + "    resource: {cpu: 8, gpu: 2}\n" + text)
    with pytest.raises(InputError) as caught:
        load_cluster(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))
