"""Labels as people write them, and what may be called what."""

from __future__ import annotations

import pytest

from cress.model.attributes import check_attributes, parse_label, parse_labels, parse_ports, plain, with_labels
from cress.model.errors import InputError
from cress.model.node import Value
from cress.model.resources import Dimensions

LABELS: dict[str, tuple[str, Value]] = {
    "zone=eu": ("zone", "eu"),
    " zone = eu-west 1 ": ("zone", "eu-west 1"),
    "ssd=true": ("ssd", True),
    "SSD=False": ("SSD", False),
    "slots=4": ("slots", 4),
    "offset=-7": ("offset", -7),
    "cuda=12.10": ("cuda", "12.10"),
    "serial=007": ("serial", "007"),
    "huge=1234567890123456789": ("huge", "1234567890123456789"),
    "query=a=b": ("query", "a=b"),
    "Disks=2": ("Disks", 2),
    "features={ssd, AVX2,avx2}": ("features", "{avx2,ssd}"),
    "features={}": ("features", "{}"),
    "query=a{b}": ("query", "a{b}"),
}


@pytest.mark.parametrize("text", LABELS, ids=str)
def test_a_label_is_a_name_and_a_value(text: str) -> None:
    name, value = parse_label(text)
    assert (name, value) == LABELS[text]
    assert type(value) is type(LABELS[text][1])


MISTAKES = {
    "zone": "'zone' is not a label (NAME=VALUE, such as zone=eu, ssd=true, slots=4 or features={avx2,ssd})",
    "features={a,b": "the value of features is not a set: {a,b (members with commas between: {avx2,ssd})",
    "features={a,,b}": "the value of features is not a set",
    "features={a{b}": "the value of features is not a set",
    "undefined=1": "undefined means something else in constraints",
    "=eu": "'=eu' is not a label",
    "zone=": "'zone=' is not a label",
    "2nd=x": "'2nd' is not a name of a label (letters, digits, `_` and `-`, beginning with a letter, at most 64)",
    "a b=x": "'a b' is not a name of a label",
    "zöne=x": "'zöne' is not a name of a label",
    "Rack=r1": "Rack means something else in constraints (another name for the label)",
    "network-adjacent=true": "network-adjacent means something else in constraints",
    "cpu-load=3": "cpu-load means something else in constraints",
    "FreeMemory=3": "FreeMemory means something else in constraints",
    "Wait_Time=3": "Wait_Time means something else in constraints",
    "zone=a\tb": "the value of zone is not a text for a label",
    f"zone={'x' * 513}": "the value of zone is not a text for a label (at most 512 printable characters)",
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[:20])
def test_what_is_no_label_is_told_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_label(text)
    assert str(caught.value).startswith(MISTAKES[text])


def test_a_name_is_given_once_whatever_its_capitals() -> None:
    assert parse_labels(["zone=eu", "ssd=true"]) == {"zone": "eu", "ssd": True}
    with pytest.raises(InputError, match="label zone: it is given twice"):
        parse_labels(["zone=eu", "zone=us"])
    with pytest.raises(InputError, match="label FastDisk: fast_disk is the same name"):
        parse_labels(["fast_disk=1", "FastDisk=2"])
    assert plain("Fast_Disk-2") == "fastdisk2"


def test_an_operator_knows_better_than_the_machine() -> None:
    found: dict[str, Value] = {"GCC": "12.2.0", "OS": "debian"}
    assert with_labels(found, {"gcc": "4.8.5"}) == {"OS": "debian", "gcc": "4.8.5"}


REFUSED: dict[str, dict[str, Value]] = {
    "CPU is a resource": {"CPU": 3},
    "idle_disk_read is a resource": {"idle_disk_read": 3},
    "gpu is a resource": {"gpu": True},
    "Disk is a resource": {"Disk": "ssd"},
    "the value of load is not a number": {"load": float("nan")},
    "257 attributes are too many": {f"a{i}": i for i in range(257)},
}


@pytest.mark.parametrize("sentence", REFUSED, ids=str)
def test_a_cluster_does_not_take_every_name(sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_attributes(REFUSED[sentence], Dimensions(("gpu",)))


def test_what_is_found_collides_with_no_dimension() -> None:
    check_attributes({"CPUs": 4, "MemoryTotal": 5, "NICSpeed": 6, "CPUModel": "x", "gpu": 1}, Dimensions())


@pytest.mark.parametrize(("text", "ports"), [("20000-32767", (20_000, 32_767)), (" 7 - 7 ", (7, 7))])
def test_a_range_of_ports(text: str, ports: tuple[int, int]) -> None:
    assert parse_ports(text) == ports


@pytest.mark.parametrize("text", ["", "7", "0-7", "8-7", "1-65536", "a-b", "1-2-3", "-1-7"])
def test_no_range_of_ports(text: str) -> None:
    with pytest.raises(
        InputError, match=r"is not a range of ports \(the first and the last dynamic port, such as 20000-32767\)"
    ):
        parse_ports(text)
