"""Files that say which devices a node has: what they mean, and how each mistake is told."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from cress.cli.devicefile import read_device_file
from cress.model.devicefile import DeviceFile, read_devices
from cress.model.devices import check_devices, facts_of
from cress.model.errors import InputError
from cress.model.node import Device
from cress.model.resources import Dimensions


def read(tmp_path: Path, text: str) -> DeviceFile:
    path = tmp_path / "devices.yaml"
    path.write_text(dedent(text).lstrip("\n"))
    return read_device_file(path)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    return str(caught.value).replace(f"{tmp_path}/", "")


def disk(name: str, path: str, *bandwidth: int) -> Device:
    read_, write, iops_read, iops_write = (*bandwidth, 0, 0, 0, 0)[:4]
    return Device(kind="disk", id=name, path=path, bandwidth=(read_, write, iops_read, iops_write))


def test_disks_devices_and_data(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        disks:
          - {path: /data/disk1, bandwidth: 200M}
          - {name: nvme, path: /data//disk2/, bandwidth: 2G:1G:500K:200K}
          - path: /data/disk3
            bandwidth: [1.5M, 100]
        devices:
          gpu: {count: 2, model: V100M16}
          npu: 1
          fpga: [{id: a0, path: /dev/fpga0}, {path: /dev/fpga1}]
        data: [/data/sets/*, /data/other/]
        """,
    )
    assert found.devices == (
        disk("disk1", "/data/disk1", 200_000_000, 200_000_000),
        disk("nvme", "/data/disk2", 2_000_000_000, 1_000_000_000, 500_000, 200_000),
        disk("disk3", "/data/disk3", 1_500_000, 100),
        Device(kind="gpu", id="0", model="V100M16"),
        Device(kind="gpu", id="1", model="V100M16"),
        Device(kind="npu", id="0"),
        Device(kind="fpga", id="a0", path="/dev/fpga0"),
        Device(kind="fpga", id="1", path="/dev/fpga1"),
    )
    assert found.data == ("/data/sets/*", "/data/other")
    assert found.told == ("disk", "gpu", "npu", "fpga")
    check_devices(found.devices, Dimensions(("gpu", "npu", "fpga")))
    assert facts_of(found.devices) == {"Disks": 3, "GPUs": 2, "GPUModel": "V100M16", "NPUs": 1, "FPGAs": 2}


def test_a_file_may_say_that_there_are_none(tmp_path: Path) -> None:
    assert read(tmp_path, "disks: []\ndevices: {gpu: 0}\n") == DeviceFile(told=("disk", "gpu"))


MISTAKES = {
    "an unknown key": (
        "disk: []\n",
        "devices.yaml:1: disk: unknown key 'disk' (did you mean disks?)",
    ),
    "an unknown key of a disk": (
        "disks:\n  - {path: /a, bandwidth: 1M}\n  - path: /b\n    bandwith: 1M\n    bandwidth: 1M\n",
        "devices.yaml:4: disks[1].bandwith: unknown key 'bandwith' (did you mean bandwidth?)",
    ),
    "a wrong amount": (
        "disks:\n  - path: /a\n    bandwidth: 200X\n",
        (
            "devices.yaml:3: disks[0].bandwidth: '200X' has an unknown unit 'X' "
            "(bytes per second such as 50M or 50MB/s; K, M, G, T are powers of 1000)"
        ),
    ),
    "a path that is not absolute": (
        "disks:\n  - {path: data/disk1, bandwidth: 1M}\n",
        (
            "devices.yaml:2: disks[0].path: 'data/disk1' is not a path for a device "
            "(an absolute path such as /data/disk1, without `..`, `:` and line ends)"
        ),
    ),
    "two disks with one path": (
        "disks:\n  - {path: /a, bandwidth: 1M}\n  - {path: /a/, name: b, bandwidth: 1M}\n",
        "devices.yaml:3: disks[1].path: /a is another device already (each path once)",
    ),
    "two disks with one name": (
        "disks:\n  - {path: /mnt/a/disk, bandwidth: 1M}\n  - {path: /mnt/b/disk, bandwidth: 1M}\n",
        "devices.yaml:3: disks[1].name: disk disk is given twice (a name for each: name: …)",
    ),
    "a negative count": (
        "devices:\n  gpu:\n    count: -1\n",
        "devices.yaml:3: devices.gpu.count: '-1' is too small (a whole number from 0 to 62)",
    ),
    "too many of a kind": (
        "devices: {gpu: {count: 63}}\n",
        "devices.yaml:1: devices.gpu.count: 63 is too large (a whole number from 0 to 62)",
    ),
    "too many together": (
        "disks: [{path: /a, bandwidth: 1M}]\ndevices:\n  gpu: 62\n",
        "devices.yaml:2: devices: 63 devices are too many for a node (at most 62)",
    ),
    "a disk without bandwidth": (
        "disks:\n  - path: /a\n",
        (
            "devices.yaml:2: disks[0].bandwidth: is missing "
            "(bytes/s such as 200M, or read:write:iops_read:iops_write such as 2G:1G:500K:200K)"
        ),
    ),
    "a disk of bandwidth 0": (
        "disks:\n  - {path: /a, bandwidth: 0}\n",
        (
            "devices.yaml:2: disks[0].bandwidth: 0 is not a bandwidth of a disk "
            "(bytes/s such as 200M, or read:write:iops_read:iops_write such as 2G:1G:500K:200K)"
        ),
    ),
    "a disk without a path": (
        "disks:\n  - bandwidth: 1M\n",
        "devices.yaml:2: disks[0].path: is missing (the folder that tasks get theirs in, such as /data/disk1)",
    ),
    "two models of a kind": (
        "devices:\n  gpu:\n    - {id: a, model: A10}\n    - {id: b, model: T4}\n",
        (
            "devices.yaml:4: devices.gpu[1].model: T4 beside A10 "
            "(one model for each kind of device on a node; declare another kind for others)"
        ),
    ),
    "a kind that is none": (
        "devices: {GPU!: 2}\n",
        (
            "devices.yaml:1: devices.GPU!: 'GPU!' is not a name for a dimension (lower-case letters, digits and "
            "_, like gpu)"
        ),
    ),
    "cores as devices": (
        "devices: {cpu: 4}\n",
        (
            "devices.yaml:1: devices.cpu: cpu is only an amount, without single devices "
            "(gpu: {count: 2, model: A10}, or a list of {id: …, path: /dev/…})"
        ),
    ),
    "disks among the devices": (
        "devices: {disk: 4}\n",
        "devices.yaml:1: devices.disk: is not a kind of device here (disks have a list of their own, disks:)",
    ),
    "an id that cannot be listed": (
        "devices:\n  fpga: [{id: 'a,b'}]\n",
        (
            "devices.yaml:2: devices.fpga[0].id: 'a,b' is not a name of a device (a word of at most 64, without "
            "`,` and `:`)"
        ),
    ),
    "data that is anywhere": (
        "data: [sets]\n",
        (
            "devices.yaml:1: data[0]: 'sets' is not a path of data "
            "(an absolute path, with * for any part of a name, such as /data/sets/*)"
        ),
    ),
    "nothing": ("", "devices.yaml: there is nothing in it (disks:, devices: and data: (docs/devices.md))"),
    "a list": ("- disks\n", "devices.yaml:1: is not a mapping (disks:, devices: and data: (docs/devices.md))"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, case: str) -> None:
    text, sentence = MISTAKES[case]
    assert refused(tmp_path, text) == sentence


def test_all_mistakes_are_told_together(tmp_path: Path) -> None:
    told = refused(
        tmp_path,
        """
        disks:
          - path: a
            bandwidth: 1X
          - {}
        devices:
          gpu: {count: some}
        data: {}
        """,
    ).splitlines()
    assert [line.split(": ")[:2] for line in told] == [
        ["devices.yaml:2", "disks[0].path"],
        ["devices.yaml:3", "disks[0].bandwidth"],
        ["devices.yaml:4", "disks[1].path"],
        ["devices.yaml:4", "disks[1].bandwidth"],
        ["devices.yaml:6", "devices.gpu.count"],
        ["devices.yaml:7", "data"],
    ]


def test_kinds_are_those_of_the_cluster_where_it_is_known() -> None:
    with pytest.raises(
        InputError, match=r"devices\.gpus: 'gpus' is not a kind of device of this cluster \(did you mean gpu"
    ):
        read_devices({"devices": {"gpus": 2}}, dimensions=Dimensions(("gpu",)))


def test_simulated_disks_need_no_path() -> None:
    found = read_devices(
        {"disks": [{"bandwidth": "100M"}, {"count": 2, "bandwidth": "50M"}, {"name": "fast", "bandwidth": "1G"}]},
        located=False,
    )
    assert [(each.id, each.bandwidth[0] // 1_000_000) for each in found.devices] == [
        ("disk0", 100), ("disk1", 50), ("disk2", 50), ("fast", 1000),
    ]  # fmt: skip
