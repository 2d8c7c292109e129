"""Quotas per kind of node as text, in the tree, and against the cluster (design note 0034)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cress.model.errors import InputErrors
from cress.model.group import Quota
from cress.model.groups.check import check_quotas
from cress.model.groups.conf import format_groups, parse_groups
from cress.model.groups.diff import diff_groups, format_diff
from cress.model.groups.measures import kind_of, split
from cress.model.groups.quota_text import format_quota, parse_resource_quota
from cress.model.node import Node, Value
from cress.model.resources import Dimensions

D = Dimensions(("gpu", "fpga"))
GIB = 2**30


@pytest.mark.parametrize(
    ("text", "amounts", "written"),
    [
        ("<40,160G,gpu(A100)=8>", {"cpu": 40_000, "memory": 160 * GIB, "gpu(A100)": 8_000}, None),
        ("<gpu(A100)=8>", {"gpu(A100)": 8_000}, None),
        ("gpu(A100)=8, gpu(T4)=0.5", {"gpu(A100)": 8_000, "gpu(T4)": 500}, "<gpu(A100)=8,gpu(T4)=0.5>"),
        ("< GPU( T4 )=1, gpu(A100)=2, cpu=4>", {"cpu": 4_000, "gpu(A100)": 2_000, "gpu(T4)": 1_000}, "<4,gpu(A100)=2,gpu(T4)=1>"),  # noqa: E501
        ("<4,gpu=8,gpu(A100)=2>", {"cpu": 4_000, "gpu": 8_000, "gpu(A100)": 2_000}, None),
        ("<memory(fat)=64G,cpu(fat)=8>", {"cpu(fat)": 8_000, "memory(fat)": 64 * GIB}, "<cpu(fat)=8,memory(fat)=64G>"),
        ("<gpu(NVIDIA A100-SXM4)=1>", {"gpu(NVIDIA A100-SXM4)": 1_000}, None),
    ],
)  # fmt: skip
def test_a_measure_is_a_dimension_with_a_kind(text: str, amounts: dict[str, int], written: str | None) -> None:
    quota, _ = parse_resource_quota(text, "dominant", D)
    assert dict(quota.amounts) == amounts
    assert format_quota(quota, "dominant", D) == (written or text)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("<gpu(A100)=0>", "gpu(A100): 0 of a kind of node has no effect (leave it out, or an amount above 0)"),
        ("<gpu()=1>", ("gpu(): '' is not a kind of node (the GPUModel of nodes, such as gpu(A100); at most 64 "
            "characters)")),
        ("<gpus(A100)=1>", "gpus(A100): unknown dimension 'gpus' (did you mean gpu?)"),
        ("<4,gpu:A100=8>", "'gpu:A100' is not a dimension (gpu(A100)=8)"),
        ("<4,8>", "no program can start in 8 bytes of memory (did you mean 8G? a plain number is bytes)"),
        ("<4,50K>", "no program can start in 51,200 bytes of memory (at least 100K; shells need 1M)"),
        ("<4>; 08:00-09:00 = <memory(fat)=64>", "no program can start in 64 bytes of memory (did you mean 64G"),
        ("<gpu(A100)>", "gpu(A100): an amount is missing (gpu(A100)=8)"),
        ("<gpu(A100)=1,GPU(A100)=2>", "gpu(A100): gpu(A100) is given twice (each kind of node once)"),
        ("<gpu(A100=1>", "gpu(A100: 'gpu(A100' is not a measure (a dimension with a kind of node such as gpu(A100))"),
        ("<gpu(A100)=1,4>", "'4' follows a part with a name (parts with names come last)"),
        ("gpu(A100)=1>", "'gpu(A100)=1>' has only one angle bracket (<40,160G,gpu(A100)=8>)"),
        ("<gpu(A100)=much>", "gpu(A100): 'much' does not begin with a number"),
        ("<4,8G,gpu=1,gpu(A100)=2>", "2 gpu(A100) are more than the 1 gpu of all kinds (gpu=2 or more, which counts all kinds)"),  # noqa: E501
        ("<4,8G,cpu(fat)=8>", ("8 cpu(fat) are more than the 4 cores of all kinds (cpu=8 or more, which counts all "
            "kinds)")),
        ("<gpu=3,gpu(A100)=2,gpu(T4)=2>", "4 gpu of the kinds A100, T4 are more than the 3 gpu of all kinds (gpu=4 or more"),  # noqa: E501
        ("<4>; 08:00-09:00 = <4,memory=8G,memory(fat)=9G>", "memory(fat) 9G are more than the memory 8G of all kinds"),
    ],
)  # fmt: skip
def test_mistakes_say_where_they_are(value: str, told: str) -> None:
    with pytest.raises(InputErrors) as found:
        parse_groups(f"Name: a\nResourceQuota: {value}\n", dimensions=D, accounting="dominant")
    assert str(found.value.errors[0]).startswith(f"Group.conf:2: ResourceQuota: {told}"), found.value.errors[0]


def test_in_the_accounting_cpu_there_are_no_kinds() -> None:
    with pytest.raises(InputErrors, match="not a quota in the accounting cpu"):
        parse_groups("Name: a\nResourceQuota: <gpu(A100)=1>\n", dimensions=D)


names = st.sampled_from([*D.names, "gpu(A100)", "gpu(T4)", "cpu(big one)", "iops_read(x)"])


@given(st.dictionaries(names, st.integers(1, 2**49), min_size=1))
def test_every_quota_is_read_as_it_was_written(amounts: dict[str, int]) -> None:
    for dimension, whole in ((name, amounts[name]) for name in D.names if name in amounts):
        assume(whole >= sum(amounts[name] for name in amounts if split(name)[0] == dimension and split(name)[1]))
    text = format_quota(Quota(amounts=tuple(amounts.items())), "dominant", D)
    quota, _ = parse_resource_quota(text, "dominant", D)
    assert dict(quota.amounts) == amounts


@pytest.mark.parametrize(
    ("attributes", "dimension", "kind"),
    [
        ({"GPUModel": "A100"}, "gpu", "A100"),
        ({"gpu_model": "A100", "NodeType": "fat"}, "gpu", "A100"),
        ({"NodeType": "fat"}, "gpu", "fat"),
        ({"GPUModel": "A100", "NodeType": "fat"}, "cpu", "fat"),
        ({"GPUModel": "A100"}, "cpu", ""),
        ({"GPUModel": "A100", "FPGAModel": "U250"}, "fpga", "U250"),
        ({"NodeType": 4}, "memory", "4"),
        ({"NodeType": True}, "memory", "true"),
    ],
)
def test_the_kind_of_a_node(attributes: dict[str, Value], dimension: str, kind: str) -> None:
    node = Node(name="n", capacity=D.vector(), attributes=tuple(attributes.items()))
    assert kind_of(node, dimension) == kind


def nodes() -> list[Node]:
    """8 A100s on one node, 4 T4s on another one."""
    return [
        Node(name=model, capacity=D.vector(cpu=64_000, gpu=1000 * count), attributes=(("GPUModel", model),))
        for model, count in (("A100", 8), ("T4", 4))
    ]


ALIKE = "(the groups share in proportion to their quotas)"


@pytest.mark.parametrize(
    ("quotas", "told"),
    [
        (["<gpu(A100)=8,gpu(T4)=4>"], []),
        (
            ["<gpu(A100)=9>"],
            [
                ("Group.conf:2: ResourceQuota: the quota <gpu(A100)=9> of group g0 is above the capacity (the "
                    "cluster has 8 gpu(A100))"),
                ("Group.conf: ResourceQuota: all quotas together are 112% of gpu(A100), the cluster has 8 "
                    f"gpu(A100) {ALIKE}"),
            ],
        ),
        (
            ["<gpu(A10)=1>"],
            [
                ("Group.conf:2: ResourceQuota: group g0 has a quota of gpu(A10), and no node with gpu is of "
                    "the kind A10 (did you mean A100?)")
            ],
        ),
        (
            ["<gpu(A100)=6>", "<gpu(A100)=6,gpu(T4)=1>", "1"],
            [("Group.conf: ResourceQuota: all quotas together are 150% of gpu(A100), the cluster has 8 "
                f"gpu(A100) {ALIKE}")],
        ),
        (
            ["<1>; 08:00-20:00 = <1,gpu(T4)=5>"],
            [
                ("Group.conf:2: ResourceQuota: the quota <1,gpu(T4)=5> of group g0 from Mon 08:00 is above "
                    "the capacity (the cluster has 4 gpu(T4))"),
                ("Group.conf: ResourceQuota: all quotas together are 125% of gpu(T4) from Mon 08:00, the "
                    f"cluster has 4 gpu(T4) {ALIKE}"),
            ],
        ),
    ],
)  # fmt: skip
def test_quotas_are_held_against_the_nodes_of_their_kind(quotas: list[str], told: list[str]) -> None:
    text = "\n".join(f"Name: g{i}\nResourceQuota: {quota}\n" for i, quota in enumerate(quotas))
    parsed = parse_groups(text, dimensions=D, accounting="dominant")
    has = tuple(map(sum, zip(*(node.capacity for node in nodes()), strict=True)))
    found = check_quotas(
        parsed.groups, has, 2, accounting="dominant", dimensions=D, nodes=nodes(), file=parsed.file, lines=parsed.lines
    )
    assert [*map(str, found.errors), *map(str, found.warnings)] == told


@pytest.mark.parametrize(
    ("blocks", "told"),
    [
        (["p: <8,gpu(A100)=4>", "a in p: <4,gpu(A100)=4>", "b in p: <4>"], ""),
        (["p: ", "a in p: <4,gpu(A100)=4>", "b in p: <4,gpu(T4)=1>"], ""),
        (
            ["p: <8,gpu(A100)=4>", "a in p: <4,gpu(A100)=3>", "b in p: <4,gpu(A100)=2>"],
            "the groups in p have quotas of 5 gpu(A100) together, its own is 4 gpu(A100)",
        ),
        (
            ["p: <8>", "a in p: <4,gpu(A100)=3>"],
            "the groups in p have quotas of 3 gpu(A100) together, its own is 0 gpu(A100)",
        ),
        (["p: <8>", "a in p: <gpu(A100)=3>"], "the quotas of a tree are all of one kind, here a vector of cpu"),
        (["a: <4,gpu(A100)=3> most <8,gpu(A100)=2>"], "2 gpu(A100) is below the quota of 3 gpu(A100)"),
        (["a: <4,gpu(A100)=3> most <8,gpu(T4)=2>"], ""),
        (["a: <4,gpu(A100)=3> most <gpu(A100)=3>"], "is a vector of kinds of nodes alone, and the quota a vector of cpu"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_tree_sums_each_kind(blocks: list[str], told: str) -> None:
    text = ""
    for block in blocks:
        head, _, rest = block.partition(":")
        name, _, parent = head.partition(" in ")
        quota, _, most = rest.partition(" most ")
        text += f"Name: {name}\n" + (f"Parent: {parent}\n" if parent else "")
        text += (f"ResourceQuota: {quota}\n" if quota.strip() else "") + (f"MaxQuota: {most}\n" if most else "") + "\n"
    if not told:
        assert len(parse_groups(text, dimensions=D, accounting="dominant").groups) == len(blocks)
        return
    with pytest.raises(InputErrors) as found:
        parse_groups(text, dimensions=D, accounting="dominant")
    assert told in str(found.value.errors[0])


def test_a_file_is_written_and_compared_with_kinds() -> None:
    text = (
        "Name: a\nResourceQuota: <4,gpu(A100)=3>; 08:00-20:00 = <4,gpu(T4)=1>\nMaxQuota: <8,gpu(A100)=4>\n"
        "Lendable: <4,gpu(A100)=1>\nUsers: *\nSchedPolicy: FIFO\nPreemptiveSchedPolicy: LowPriorityFirst\n"
    )
    parsed = parse_groups(text, dimensions=D, accounting="dominant")
    assert format_groups(parsed.groups, dimensions=D, accounting="dominant") == text
    other = parse_groups(text.replace("gpu(T4)=1", "gpu(T4)=2"), dimensions=D, accounting="dominant")
    diff = format_diff(diff_groups(parsed.groups, other.groups, dimensions=D, accounting="dominant"))
    assert diff == (
        "~ a\n    ResourceQuota: <4,gpu(A100)=3>; 08:00-20:00 = <4,gpu(T4)=1> -> <4,gpu(A100)=3>; "
        "08:00-20:00 = <4,gpu(T4)=2>\n"
    )


def test_a_measure_without_a_kind_is_its_dimension() -> None:
    assert [split(each) for each in ("gpu", "gpu(A100)", "")] == [("gpu", ""), ("gpu", "A100"), ("", "")]
