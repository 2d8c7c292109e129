"""What texts mean, and how they are printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.language.clauses import Clause, Kind, Rank, RankTerm, Requirement, brief, joined
from cress.language.parser import parse_expression, parse_rank, parse_requirement
from cress.language.relaxation import Relaxation
from cress.language.tree import Expression, In, Truth
from cress.model.errors import InputError
from cress.model.resources import Dimensions
from tests.examples import examples
from tests.language.strategies import conditions, rank_terms

# As the source prints them, (i) to (viii), and how Cress prints them.
PRINTED = {
    "OSKernel = 2.6.32&&Java > = 1.5": "OSKernel = 2.6.32 && Java >= 1.5",
    "DataLocality in (192.168.1.120-121) &&  f(x) = (Waittime > 15s)": (
        "DataLocality in (192.168.1.120-121) && f(x) = (Waittime > 15s)"
    ),
    "DataLocalityin (192.168.1.2-8)": None,
    "(GCC > = 4.5) && (Resource = <1, 2G, 100M, 50M>) && (Port = 80)": (
        "GCC >= 4.5 && Resource = <1,2G,100M,50M> && Port = 80"
    ),
    "(GCC > = 4.5) && (Resource = <1, 2G, 100M, 50M>) && (Port = 80) && (ExclusiveDisk = True) && "
    "Nodes in (192.168.1.120-121)": (
        "GCC >= 4.5 && Resource = <1,2G,100M,50M> && Port = 80 && ExclusiveDisk = True && Nodes in (192.168.1.120-121)"
    ),
    "(OSKernel > = 2.6.32) && (Java > = 1.5) && (GCC > = 4.5) && (Resource = <5, 10G, 600M, 100M>) && "
    "(Network-Adjacent = True) && (Port = 80) && (ExclusiveDisk = True)": (
        "OSKernel >= 2.6.32 && Java >= 1.5 && GCC >= 4.5 && Resource = <5,10G,600M,100M> && NetworkAdjacent = True && "
        "Port = 80 && ExclusiveDisk = True"
    ),
    "JobDependency = A": 'JobDependency = "A"',
    "DependedJob = JobA": 'JobDependency = "JobA"',
    "job_dependency = group/A-1": 'JobDependency = "group/A-1"',
    "NetworkAdjacent = False && ExclusiveDisk = FALSE": "",
    " \n ": "",
    # Spellings.
    "a and b or not c": "a && b || ! c",
    "a ∧ b ∨ ¬ c": "a && b || ! c",
    "a = = 1 && b ! = 2 && c <> 3 && d ≤ 4 && e ≥ 5 && f ≠ 6": "a = 1 && b != 2 && c != 3 && d <= 4 && e >= 5 && f != 6",  # noqa: E501
    "idle_cpu*2 ÷ 3 − 1 > 0": "IdleCPU × 2 / 3 - 1 > 0",
    "Zone = 'it''s'": None,
    r"""Zone = 'it\'s "so"'""": r'''Zone = "it's \"so\""''',
    "Rack in (r1, R2 , 'r 3', 5, -5, true, 10.0.0.0/8, ::1)": (
        'Rack in ("r1", "R2", "r 3", 5, -5, True, 10.0.0.0/8, ::1)'
    ),
    "Nodes in (web-1, 10.0.0.9-12, n1.example.org)": 'Nodes in ("web-1", 10.0.0.9-12, "n1.example.org")',
    "index = order && notice = android": "index = order && notice = android",
    "Resource = <cpu=1, gpu=0.5, disk=5M:2M>": "Resource = <1,0,0,5M:2M,gpu=0.5>",
    # Precedence.
    "a || b && c": "a || b && c",
    "(a || b) && c": "(a || b) && c",
    "a && (b && c) && (d)": "a && b && c && d",
    "! a = b": "! a = b",
    "!(a && b)": "! (a && b)",
    "!!a": "! ! a",
    "(a = b) = True": "(a = b) = True",
    "a - (b - c) - d > 0": "a - (b - c) - d > 0",
    "(a - b) - c > 0": "(a - b) - c > 0",
    "a + b * c > -d / 2": "a + b × c > -d / 2",
    "(a + b) * c > -(d / 2)": "(a + b) × c > -(d / 2)",
    "a / (b × c) = 1": "a / (b × c) = 1",
    "2.6.32 <= OSKernel": "2.6.32 <= OSKernel",
    # f(x).
    "Rack = r1 && f(x)=(Waittime>10s) && Rack in (r1,r2) && F( X ) = (waittime > 1min)": (
        'Rack = r1 && f(x) = (Waittime > 10s) && Rack in ("r1", "r2") && f(x) = (Waittime > 1min)'
    ),
    "a && f(x) = Waittime >= 90": "a && f(x) = (Waittime >= 90)",
    "a && f(x) = !(Waittime <= 90) && b": "a && f(x) = (! Waittime <= 90) && b",
    "a && f(x, weight=2.50) = True": "a && f(x, weight=2.5) = True",
    "(a && f(x) = True) && b": "a && f(x) = True && b",
    "(a && b) && f(x) = True": "(a && b) && f(x) = True",
    "(a || b) && f(x) = True": "(a || b) && f(x) = True",
    "(a && b) && f(x) = (Waittime > 1min && !(ClusterLoad >= 80% || Cluster_Load < 0.1))": (
        "(a && b) && f(x) = (Waittime > 1min && ! (ClusterLoad >= 80% || ClusterLoad < 0.1))"
    ),
}


@pytest.mark.parametrize(("text", "printed"), [each for each in PRINTED.items() if each[1] is not None])
def test_requirements_are_read_and_printed(text: str, printed: str) -> None:
    requirement = parse_requirement(text)
    assert str(requirement) == printed
    assert parse_requirement(printed) == requirement


@pytest.mark.parametrize("text", [text for text, printed in PRINTED.items() if printed is None])
def test_what_is_no_requirement_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_requirement(text)


RANKS = {
    "0.5 × CPU + 0.5 × IdleNetwork": "0.5 × CPU + 0.5 × IdleNetwork",
    "1 × (IdleCPU/8)": "IdleCPU / 8",
    "(IdleCPU/8) + (ExclusiveDisk = True)": "IdleCPU / 8 + (ExclusiveDisk = True)",
    "1 × (IdleCPU/8) + 2 × (ExclusiveDisk = True)": "IdleCPU / 8 + 2 × (ExclusiveDisk = True)",
    "CPU": "CPU",
    "-CPU - SSD": "-1 × CPU - SSD",
    "50% × CPU - 2 × (a + b) + 3": "0.5 × CPU - 2 × (a + b) + 3",
    "2 × (3 × -(a))": "-6 × a",
    "1 × (a + b)": "1 × (a + b)",
    "2 × 3": "2 × 3",
    "-4 / b - -4 / b": "-4 / b - -4 / b",
    "Rack = r1": "(Rack = r1)",
    "a && b || c": "(a && b || c)",
    "Nodes in (n1) ": '(Nodes in ("n1"))',
    "(NetworkAdjacent = True) + 3 × (JobDependency = A) + (Port = 80)": (
        '(NetworkAdjacent = True) + 3 × (JobDependency = "A") + (Port = 80)'
    ),
    "(ExclusiveDisk = False)": "",
    "": "",
}


@pytest.mark.parametrize(("text", "printed"), RANKS.items())
def test_ranks_are_read_and_printed(text: str, printed: str) -> None:
    rank = parse_rank(text)
    assert str(rank) == printed
    assert parse_rank(str(rank)) == rank


def test_the_kinds_of_clauses_and_their_values() -> None:
    text = (
        "GCC > 4 && Nodes in (a) && DataLocality in (a) && Resource = <0.5,2G,gpu=1> && Port = 080 && "
        "ExclusiveDisk = True && "
        'NetworkAdjacent = True && DependedJob = " shop/A " && f(x, weight=3) = (Waittime > 1s)'
    )
    found = [(clause.kind, clause.value) for clause in parse_requirement(text).clauses]
    assert found == [
        (Kind.CONDITION, None),
        (Kind.NODES, None),
        (Kind.NODES, None),
        (Kind.RESOURCE, (("cpu", 500), ("memory", 2 << 30), ("gpu", 1000))),
        (Kind.PORT, 80),
        (Kind.DISK, 1),
        (Kind.ADJACENT, None),
        (Kind.DEPENDENCY, "shop/A"),
    ]
    last = parse_requirement(text).clauses[-1]
    assert last.relaxation is not None
    assert last.relaxation.weight == 3
    assert last.hard() == Clause(last.kind, last.expression, last.value)


def test_names_are_one_however_they_are_spelled() -> None:
    one, other = (parse_requirement(text) for text in ("OSKernel > 5 && idle-cpu > 1", "os_kernel > 5 && IDLECPU > 1"))
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == "OSKernel > 5 && IdleCPU > 1"


def test_joined_requirements_add_what_is_taken_and_name_the_rest_once() -> None:
    first = parse_requirement("Java >= 1.5 && Resource = <4,8G,500M,50M> && ExclusiveDisk = True && Port = 80")
    second = parse_requirement("GCC >= 4.5 && Java >= 1.5 && Resource = <1,2G,100M,50M,gpu=1> && ExclusiveDisk = True")
    both = joined([first, second])
    assert str(both) == (
        "Java >= 1.5 && Resource = <5,10G,600M,100M,gpu=1> && ExclusiveDisk = 2 && Port = 80 && GCC >= 4.5"
    )
    assert parse_requirement(str(both)) == both
    assert joined([first]) == first
    many = [parse_requirement(f"a = {i}") for i in range(32)]
    with pytest.raises(InputError, match="32 clauses are too many"):
        joined(many)


def test_a_vector_that_is_read_here_is_read_the_same_by_a_cluster() -> None:
    (clause,) = parse_requirement("Resource = <1, 2G, 3M, 4M:5M:6:7, npu=0.5, gpu=2>").clauses
    dimensions = Dimensions(("gpu", "npu"))
    assert isinstance(clause.value, tuple)
    assert dimensions.vector(**dict(clause.value)) == (1000, 2 << 30, 3 * 10**6, 4 * 10**6, 5 * 10**6, 6, 7, 2000, 500)


@examples(67)
@given(conditions)
def test_what_is_printed_is_read_as_the_same_expression(expression: Expression) -> None:
    assert parse_expression(str(expression)) == expression


relaxations = st.sampled_from(("(Waittime > 15s)", "True", "(ClusterLoad >= 80% || ! (Waittime <= 1min))")).map(
    lambda text: parse_requirement(f"a && f(x, weight=2) = {text}").clauses[0].relaxation
)
placements = st.sampled_from(
    parse_requirement(
        'Port = 80 && ExclusiveDisk = True && NetworkAdjacent = True && JobDependency = "g/A" && Resource = '
        "<1,2G> && Nodes in (a)"
    ).clauses
)


def _clause(condition: Expression, relaxation: Relaxation | None) -> Clause:
    return Clause(Kind.CONDITION, condition, None, relaxation)


clauses = st.builds(_clause, conditions, relaxations) | st.builds(
    lambda clause, relaxation: Clause(clause.kind, clause.expression, clause.value, relaxation),
    placements,
    relaxations | st.none(),
)


@given(st.lists(clauses, max_size=4))
def test_what_is_printed_is_read_as_the_same_requirement(chosen: list[Clause]) -> None:
    requirement = Requirement(tuple(chosen))
    assert parse_requirement(str(requirement), stored=True) == requirement


@examples(34)
@given(st.lists(st.tuples(st.sampled_from((1.0, -1.0, 0.5, 2.0, 0.0)), rank_terms), min_size=1, max_size=4))
def test_what_is_printed_is_read_as_the_same_rank(chosen: list[tuple[float, Expression]]) -> None:
    # Factors before a term belong to its weight, so what is compared has been read once.
    once = parse_rank(str(Rank(tuple(RankTerm(weight, expression) for weight, expression in chosen))), stored=True)
    assert parse_rank(str(once), stored=True) == once


def test_a_member_of_a_set_is_a_term_in_parentheses() -> None:
    rank = parse_rank('2 × ("a" in Labels.Zones) + CPU')
    assert str(rank) == '2 × ("a" in Labels.Zones) + CPU'
    assert parse_rank(str(rank), stored=True) == rank


def test_an_empty_requirement_and_rank_are_false() -> None:
    assert not Requirement()
    assert not Rank()
    assert Requirement((Clause(Kind.CONDITION, Truth(True)),))
    assert Rank((RankTerm(1, Truth(True)),))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('gpu-1 = "yes"', 'gpu-1 = "yes"'),
        ("`gpu-1` = 4", "gpu-1 = 4"),
        ("`CPU-model` = 4", "`CPU-model` = 4"),
        ("defined(`in`)", "defined(`in`)"),
        ("`not` && a", "`not` && a"),
        ("Java ~> 11", "Java = 11.*"),
        ("Java != 11.*", "Java != 11.*"),
        ("OSKernel >= 5.10.0-8-generic", "OSKernel >= 5.10.0-8-generic"),
        ("JDK = 17-ea", "JDK = 17-ea"),
        ("Slots = 8-1", "Slots = 8 - 1"),
    ],
)
def test_names_in_backquotes_and_versions_with_suffixes(text: str, printed: str) -> None:
    requirement = parse_requirement(text)
    assert str(requirement) == printed
    assert parse_requirement(printed) == requirement


def test_a_list_names_thousands_of_nodes_and_its_clause_is_shown_by_its_beginning() -> None:
    (clause,) = parse_requirement(f"Nodes in ({', '.join(f'10.0.{i // 250}.{i % 250}' for i in range(3000))})").clauses
    assert isinstance(clause.expression, In)
    assert len(clause.expression.items) == 3000
    assert brief(clause).startswith("Nodes in (10.0.0.0, 10.0.0.1, ")
    assert brief(clause).endswith(", 10.0.0.19, … and 2,980 more)")
    with pytest.raises(InputError, match="without lists"):
        parse_requirement("a in (1, 2) && " + "a || " * 1000 + "a")
