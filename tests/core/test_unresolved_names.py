"""Names of things that are not there are told: where a job waits, and when somebody tries or submits a text."""

from __future__ import annotations

import pytest

from cress.core.diagnostics.match_report import remarks_on
from cress.core.diagnostics.unresolved_names import remarks
from cress.model.job import Job
from cress.model.resources import Dimensions
from tests.core.builders import World, group, job, node


def world() -> World:
    lab = node("n1").cpu(4).rack("r1").where(gcc="4.10", SSD=True, cuda_version="12.1")
    world = World(group("g", 9), nodes=(lab, node("n2").cpu(4).rack("r2")))
    return world.run(job("db").group("g")).submit(job("later").cpu(9).group("g"))


TEXTS = {
    'Rack = "r1" && GCC >= 4.5 && IdleCPU > 1 && SSD': "",
    "Rack = r1": 'no node has an attribute r1, a text must be in quotes: "r1"',
    "Rack in (r1, r2)": "",
    "Gcx >= 4.5": "no node has an attribute Gcx, did you mean gcc?",
    "4.5 <= Gcx": "no node has an attribute Gcx, did you mean gcc?",
    "CudaVersoin > 12 || SSD": "no node has an attribute CudaVersoin, did you mean cuda_version?",
    "NetworkAdjacant = True": "no node has an attribute NetworkAdjacant, did you mean NetworkAdjacent?",
    "Zone = eu && !(Zone = us)": "no node has an attribute Zone; "
    'no node has an attribute eu, a text must be in quotes: "eu"; '
    'no node has an attribute us, a text must be in quotes: "us"',
    "SSD || !defined(Flash) && Flash > 1": "",
    "Flash > 1 && f(x) = (Waittime > 1h)": "no node has an attribute Flash",
    'Nodes in (n7) && NetworkAdjacent = True && Port = 80 && Resource = <1> && Hostname = "n1"': "",
}


@pytest.mark.parametrize(("requirement", "told"), TEXTS.items())
def test_what_no_node_has(requirement: str, told: str) -> None:
    assert "; ".join(remarks_on(world().core.books, requirement, "")) == told


def test_in_a_rank_too() -> None:
    assert remarks_on(world().core.books, "", "0.5 × CPPU + 2 × (Port = 80) + IdleCPU + gcc + Rack") == (
        "no node has an attribute CPPU, did you mean CPU?",
    )


def test_without_nodes_nothing_is_known_to_be_missing() -> None:
    assert remarks_on(World(group("g", 9)).core.books, "Rack = r1", "CPPU") == ()


def submitted(requirement: str, rank: str = "") -> tuple[str, ...]:
    dimensions = Dimensions()
    return remarks(
        world().core.books,
        Job(id=9, group="g", name="it", request=(0,) * len(dimensions), requirement=requirement, rank=rank),
    )


def test_whoever_submits_is_told_what_may_be_a_mistake() -> None:
    assert submitted(requirement='JobDependency = "dbs" && Rack = "r9" && f(x) = (Waittime > 1h)', rank="CPPU") == (
        "there is no job dbs, did you mean db?",
        "no node has an attribute CPPU, did you mean CPU?",
    )
    assert submitted(requirement='Name in ("n*", "gpu-[01-40]")') == ("no node has a name like gpu-[01-40]",)
    assert submitted(requirement='Nodes in (n[1-9]) && !(Hostname in ("*-old"))') == ("no node has a name like *-old",)
    assert submitted(requirement="JobDependency = db") == ()
    assert submitted(requirement="JobDependency = later") == ()


WHY = {
    "Rack = r1": "no node of this cluster could ever satisfy Rack = r1 (2 of 2 nodes do not); "
    'no node has an attribute r1, a text must be in quotes: "r1"',
    "Rack = r1 && f(x) = (Waittime > 1h)": "no node satisfies Rack = r1 (2 of 2 nodes do not); "
    "Rack = r1 turns soft in 1h; "
    'no node has an attribute r1, a text must be in quotes: "r1"',
    'regexp(Name, "^gpu")': 'no node of this cluster could ever satisfy regexp(Name, "^gpu") (2 of 2 nodes do not)',
    'contains(Featurs, "avx2")': 'no node of this cluster could ever satisfy contains(Featurs, "avx2") (2 of 2 nodes do '  # noqa: E501
    "not); "
    "no node has an attribute Featurs",
    'Name in ("n*", "gpu-[01-40]") && Rack = "r9"': 'no node of this cluster could ever satisfy Rack = "r9" (2 of 2 nodes do not)',  # noqa: E501
    "Nodes in (gpu*)": 'no node of this cluster could ever satisfy Nodes in ("gpu*") (2 of 2 nodes do not); '
    "no node has a name like gpu*",
    '"avx2" in Featurs': 'no node of this cluster could ever satisfy "avx2" in Featurs (2 of 2 nodes do not); '
    "no node has an attribute Featurs",
    "GPUs is not undefined": "no node of this cluster could ever satisfy GPUs is not undefined (2 of 2 nodes do not)",
    "JobDependency = web": 'no node satisfies JobDependency = "web" (2 of 2 nodes do not); there is no job web',
    "JobDependency = later": 'no node satisfies JobDependency = "later" (2 of 2 nodes do not); no task of later runs',
    'JobDependency = "h/db"': 'no node satisfies JobDependency = "h/db" (2 of 2 nodes do not); there is no job h/db',
}


@pytest.mark.parametrize(("requirement", "sentence"), WHY.items())
def test_why_a_job_waits(requirement: str, sentence: str) -> None:
    core = world()
    core.submit(job("it").group("g").requires(requirement)).decide()
    assert core.why("it") == sentence


def test_a_gang_is_told_what_binds_its_tasks() -> None:
    core = World(group("g", 9), nodes=(node("n1").cpu(4).rack("r1"), node("n2").cpu(4).rack("r2")))
    core.run(job("fills").cpu(2).group("g"))
    gang = job("it").tasks(6).gang().group("g")
    core.submit(gang.spread(per_node=3, per_rack=3)).decide()
    assert core.why("it") == (
        "not enough nodes have enough free for all tasks of the gang; there is room for some of them only,"
        " with at most 3 of its tasks on one node and at most 3 of its tasks in one rack"
    )
    core.submit(gang.named("large").requires("NetworkAdjacent = True").spread(per_node=2)).decide()
    assert core.why("large") == (
        "all nodes of this cluster together are too small for all tasks of the gang at once,"
        " with NetworkAdjacent = True and at most 2 of its tasks on one node"
    )


def test_a_job_of_the_default_group_is_found_where_it_runs() -> None:
    core = World(group("g", 9), nodes=(node("n1").cpu(1), node("n2").cpu(1))).run(job("db"))
    (start,) = core.running.values()
    assert [fit.node for fit in core.core.match("JobDependency = db") if fit.satisfied] == [start.node]


@pytest.mark.parametrize(
    ("rank", "told"),
    [
        ('near("nojob", Rack) + CPU', "there is no job nojob"),
        ("2 × (JobDependency = nojob)", "there is no job nojob"),
        ("spread(Zome)", "no node has an attribute Zome"),
        ('spread(Rack, "r99=50%")', "no node has Rack r99"),
    ],
)
def test_clauses_in_a_rank_are_told_as_well(rank: str, told: str) -> None:
    assert remarks_on(world().core.books, "", rank) == (told,)
