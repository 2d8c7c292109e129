"""Resource vectors as text and as mappings."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.errors import InputError, InputErrors
from cress.model.resources import Dimensions, ResourceVector
from cress.model.units import AMOUNT_LIMIT
from cress.model.vectors import describe_vector, format_vector, parse_vector

DIMENSIONS = Dimensions(("gpu", "npu"))
G, M = 2**30, 10**6


def vector(**amounts: int) -> ResourceVector:
    return DIMENSIONS.vector(**amounts)


FULL = vector(cpu=4000, memory=8 * G, network=500 * M, disk_read=50 * M, disk_write=50 * M)

READ = [
    ("the source's own example", "<4,8G,500M,50M>", FULL),
    ("brackets left out for the shell", "4,8G,500M,50M", FULL),
    ("spaces", " < 4 , 8G , 500M , 50M > ", FULL),
    ("by name", "<memory=8G,cpu=4,network=500M,disk=50M>", FULL),
    ("the end left out", "<4,8G>", vector(cpu=4000, memory=8 * G)),
    ("nothing", "<0>", vector()),
    ("custom dimensions", "<4,8G,gpu=2,npu=0.5>", vector(cpu=4000, memory=8 * G, gpu=2000, npu=500)),
    ("reading only", "<0,0,0,50M:0>", vector(disk_read=50 * M)),
    ("bytes read and written apart", "<0,0,0,50M:20M>", vector(disk_read=50 * M, disk_write=20 * M)),
    (
        "all four amounts of the disk",
        "<0,0,0,50M:20M:1K:500>",
        vector(disk_read=50 * M, disk_write=20 * M, iops_read=1000, iops_write=500),
    ),
    ("one amount of the disk by its name", "<iops_write=500>", vector(iops_write=500)),
]


@pytest.mark.parametrize(("text", "amounts"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_vectors_are_read(text: str, amounts: ResourceVector) -> None:
    assert parse_vector(text, DIMENSIONS) == amounts


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<>", "the vector is empty (<cpu,memory,network,disk> such as <4,8G,500M,50M>; <0> for nothing)"),
        ("<4", "'<4' has only one angle bracket (in {…} it is in quotes: \"<4,8G>\")"),
        ("<4,8G", "'<4,8G' has only one angle bracket (<cpu,memory,network,disk> such as <4,8G,500M,50M>)"),
        (
            "<4,8G,1,1,2>",
            (
                "'2' is one part too many "
                "(<cpu,memory,network,disk> such as <4,8G,500M,50M>; other dimensions by name: gpu=…, npu=…)"
            ),
        ),
        ("<gpu=1,3>", "'3' follows a part with a name (parts with names come last)"),
        ("<4,8G,gqu=1>", "gqu: unknown dimension 'gqu' (did you mean gpu?)"),
        ("<4,,8G>", "memory: an amount is missing (0 for none)"),
        ("<4,cpu=4>", "cpu: cpu is given twice (each dimension once; disk stands for disk_read and the rest)"),
        (
            "<disk=5,disk_read=3>",
            "disk_read: disk_read is given twice (each dimension once; disk stands for disk_read and the rest)",
        ),
        (
            "<0,0,0,1:2:3:4:5>",
            (
                "disk: 5 amounts for the disk are too many "
                "(bytes/s read:bytes/s write:operations/s read:operations/s write)"
            ),
        ),
        ("<4:5>", "cpu: '4:5' has an unknown unit ':5' (a number such as 4, 2.5 or 500m)"),
    ],
)
def test_vectors_that_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_vector(text, DIMENSIONS)
    assert str(caught.value) == sentence


def test_a_mapping_has_numbers_or_texts() -> None:
    source = {"cpu": 4, "Memory": "8G", "network": 5e8, "disk": [M, "2M"], "gpu": 0.5, "npu": Decimal("1.25")}
    expected = vector(cpu=4000, memory=8 * G, network=500 * M, disk_read=M, disk_write=2 * M, gpu=500, npu=1250)
    assert parse_vector(source, DIMENSIONS) == expected


def test_one_amount_for_the_disk_in_a_mapping_is_reading_and_writing() -> None:
    assert parse_vector({"disk": 50 * M}, DIMENSIONS) == vector(disk_read=50 * M, disk_write=50 * M)


def test_all_mistakes_of_a_mapping_are_reported_together() -> None:
    source = {"cpu": -1, "mem": "8G", "gpu": float("nan"), "npu": True, "memory": 10**5000, "disk": []}
    with pytest.raises(InputErrors) as caught:
        parse_vector(source, DIMENSIONS)
    assert [error.field for error in caught.value.errors] == list(source)


def test_a_float_is_taken_as_it_was_written() -> None:
    assert parse_vector({"cpu": 0.1}, DIMENSIONS) == vector(cpu=100)
    with pytest.raises(InputError, match="finer than thousandths"):
        parse_vector({"cpu": 0.1 + 0.2}, DIMENSIONS)


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        (FULL, "<4,8G,500M,50M>"),
        (vector(), "<0>"),
        (vector(gpu=2000), "<0,gpu=2>"),
        (vector(disk_read=50 * M), "<0,0,0,50M:0>"),
        (vector(disk_write=50 * M, iops_read=3), "<0,0,0,0:50M:3>"),
        (vector(disk_read=M, disk_write=M, iops_write=3), "<0,0,0,1M:1M:0:3>"),
    ],
)
def test_vectors_are_written(amounts: ResourceVector, text: str) -> None:
    assert format_vector(amounts, DIMENSIONS) == text


amounts_of_a_dimension = st.one_of(st.just(0), st.just(1000), st.integers(0, AMOUNT_LIMIT - 1))


@given(st.tuples(*[amounts_of_a_dimension] * len(DIMENSIONS)))
def test_a_written_vector_reads_back(amounts: ResourceVector) -> None:
    text = format_vector(amounts, DIMENSIONS)
    assert parse_vector(text, DIMENSIONS) == amounts
    assert parse_vector(text[1:-1], DIMENSIONS) == amounts


@given(st.text(alphabet="<>0123456789.,:=GMKkgpudisc ", max_size=30))
def test_any_text_is_a_vector_or_an_input_error(text: str) -> None:
    try:
        amounts = parse_vector(text, DIMENSIONS)
    except InputError as error:
        assert str(error)
    else:
        assert parse_vector(format_vector(amounts, DIMENSIONS), DIMENSIONS) == amounts


def test_a_vector_in_a_sentence() -> None:
    assert describe_vector(vector(cpu=2500, memory=8 * G, gpu=2000), DIMENSIONS) == "2.5 cores, memory 8G, 2 gpu"
    assert describe_vector(vector(), DIMENSIONS) == "nothing"


def test_no_dimension_may_be_called_disk() -> None:
    with pytest.raises(InputError, match="'disk' is taken"):
        Dimensions(("disk",))
