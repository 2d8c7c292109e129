"""Nodes that choose: conditions over jobs, names to be tolerated; who waits is told which nodes, and why."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.placing.constraints import NO_WANTS
from cress.core.placing.node_choices import check_choice, check_names
from cress.language.acceptance import parse_accepts
from cress.model.errors import InputError
from cress.model.events import Outcome
from cress.model.job import Job
from cress.model.node import Node, Value
from cress.model.resources import Dimensions
from tests.core.builders import JobBuilder, NodeBuilder, World, group, job, node
from tests.core.promises import promised_state
from tests.core.stories import sent_away
from tests.examples import examples
from tests.language import plain

LAB = 'Job.Group = "lab"'


def world(*nodes: NodeBuilder) -> World:
    return World(group("lab", 99), group("web", 99), nodes=nodes)


def where(core: World, name: str) -> list[str]:
    return sorted(start.node for start in core.starts if start.job == name)


def test_a_node_takes_only_jobs_that_it_accepts() -> None:
    core = world(node("n1").cpu(9).accepts(LAB), node("n2").cpu(1).accepts("Job.User in (ann, bob)"), node("n3").cpu(1))
    core.submit(job("a").tasks(3).cpu(1).group("lab").user("eve"), job("b").tasks(3).cpu(1).group("web").user("Bob"))
    core.decide()
    assert set(where(core, "a")) <= {"n1", "n3"}
    assert len(where(core, "a")) == 3
    assert "n2" in where(core, "b")
    assert "n1" not in where(core, "b")
    assert core.why("b") == (
        f"no node that satisfies the condition of n1: {LAB}"
        f" has enough free (1 of 3 nodes does not satisfy it; 2 lack cpu)"
    )


WHY = {
    "nodes with one condition": (
        [node("n1").accepts(LAB), node("n2").accepts(LAB)],
        job("it").group("web"),
        f"no node of this cluster could ever satisfy the condition of n1 and n2: {LAB} (2 of 2 nodes do not)",
    ),
    "many nodes": (
        [node(f"n{i}").accepts("Job.CPU >= 4 && Job.User in Owners").where(owners="{ann}") for i in range(5)],
        job("it").cpu(2).group("web").user("ann"),
        (
            "no node of this cluster could ever satisfy the condition of n0, n1, n2 and 2 more: Job.CPU >= 4 && "
            "Job.User in Owners "
            "(5 of 5 nodes do not)"
        ),
    ),
    "a name that is not tolerated": (
        [node("n1").repels("gpu"), node("n2").repels("gpu", "old")],
        job("it").group("web").tolerates("old"),
        "no node of this cluster could ever satisfy tolerates: gpu, by which n1 and n2 repel (2 of 2 nodes do not)",
    ),
    "both": (
        [node("n1").repels("gpu"), node("n2").accepts(LAB)],
        job("it").group("web"),
        (
            f"no node of this cluster could ever satisfy the condition of n2: {LAB}"
            f" and tolerates: gpu, by which n1 repels "
            "(of 2 nodes 1 does not satisfy the first, 1 the second)"
        ),
    ),
    "only nodes that satisfy the rest matter": (
        [
            *(node(f"n{i}").accepts(LAB if i % 2 else 'Job.User = "bob"').repels("gpu") for i in range(4)),
            node("n4").accepts(LAB),
        ],
        job("it").group("web").requires('Name = "n4"'),
        (
            f'no node of this cluster could ever satisfy Name = "n4" and the condition of n4: {LAB} '
            "(of 5 nodes 4 do not satisfy the first, 1 the second)"
        ),
    ),
    "what nodes that do not matter accept is not told": (
        [node("n1").accepts(LAB), node("n2").repels("gpu")],
        job("it").group("web").requires('Name = "n4"'),
        'no node of this cluster could ever satisfy Name = "n4" (2 of 2 nodes do not)',
    ),
    "each node has a condition of its own": (
        [node(f"n{i}").accepts(f"Job.Tasks > {i + 1}") for i in range(6)],
        job("it").group("web"),
        (
            "no node of this cluster could ever satisfy the condition of n0: Job.Tasks > 1 and the condition of n1: "
            "Job.Tasks > 2 and "
            "the condition of n2: Job.Tasks > 3 and the conditions of 3 more nodes "
            "(of 6 nodes 1 does not satisfy the condition of n0: Job.Tasks > 1, "
            "1 does not satisfy the condition of n1: Job.Tasks > 2, "
            "1 does not satisfy the condition of n2: Job.Tasks > 3, 3 do not satisfy the conditions of 3 more nodes)"
        ),
    ),
    "an unknown user is not accepted": (
        [node("n1").accepts('Job.User != "eve"')],
        job("it").group("web").user(""),
        'no node of this cluster could ever satisfy the condition of n1: Job.User != "eve" (1 of 1 node does not)',
    ),
}


@pytest.mark.parametrize("story", WHY)
def test_who_waits_is_told_which_nodes_do_not_accept_it_and_why(story: str) -> None:
    nodes, waiting, sentence = WHY[story]
    core = world(*(each.cpu(8) for each in nodes))
    core.submit(waiting).decide()
    assert core.starts == []
    assert core.why("it") == sentence


def test_a_job_that_tolerates_more_may_go_everywhere() -> None:
    core = world(node("n1").cpu(1).repels("gpu"), node("n2").cpu(1).repels("gpu", "old"))
    core.run(job("it").tasks(2).cpu(1).group("web").tolerates("old", "new", "gpu"))
    assert where(core, "it") == ["n1", "n2"]


def test_a_node_that_changes_its_mind_keeps_what_runs_and_lets_others_in() -> None:
    core = world(node("n1").cpu(4))
    core.run(job("runs").cpu(1).group("web"))
    core.change_node(node("n1").cpu(4).accepts(LAB)).submit(
        job("it").cpu(1).group("web"), job("mine").cpu(1).group("lab")
    )
    core.decide()
    assert sorted(start.job for start in core.running.values()) == [1, 3]
    core.change_node(node("n1").cpu(4)).decide()
    assert where(core, "it") == ["n1"]
    assert core.state("it").shape.wants is NO_WANTS


def test_other_conditions_ask_waiting_jobs_again() -> None:
    core = world(node("n1").cpu(4).accepts(LAB))
    core.submit(job("it").cpu(1).group("web").user("ann")).decide()
    assert core.starts == []
    core.change_node(node("n1").cpu(4).accepts(f'{LAB} || Job.User = "ann"')).decide()
    assert where(core, "it") == ["n1"]


def test_a_gang_and_reservations_heed_it() -> None:
    core = world(node("n1").cpu(4).accepts(LAB), node("n2").cpu(4), node("n3").cpu(4).repels("x"))
    gang = job("gang").tasks(6).cpu(1).gang().group("web").limit("1h")
    core.submit(gang).decide()
    assert core.why("gang") == (
        "all nodes of this cluster together are too small for all tasks of the gang at once (of 3 nodes "
        f"1 does not satisfy the condition of n1: {LAB}, 1 does not satisfy tolerates: x, by which n3 repels)"
    )
    core.run(gang.named("again").tolerates("x"))
    assert set(where(core, "again")) == {"n2", "n3"}
    core.submit(job("next").cpu(4).group("web").limit("1h")).decide()
    core.finish("again")
    core.decide()
    assert where(core, "next") == ["n2"]


def test_clusters_without_such_nodes_know_nothing_of_it() -> None:
    core = world(node("n1").cpu(1))
    core.submit(job("a").cpu(1).group("web").tolerates("gpu"), job("b").cpu(1).group("lab").user("ann"))
    assert core.state("a").shape is core.state("b").shape
    assert core.state("a").shape.wants is NO_WANTS


MISTAKES = {
    "Job.User = ": "accepts: at the end: a value is expected",
    "IdleCPU > 4 && Job.Tasks > 1": "accepts: at character 1, `IdleCPU > 4 && Job.Tasks…`: IdleCPU changes all the time, "  # noqa: E501
    "but a condition of a node must not change (Job.CPU, Job.Memory, or attributes of the node; "
    "such as Job.Group in (lab, web) or Job.User in Owners)",
    "SSD = True": (
        "accepts: SSD = True does not depend on the job (such as Job.Group in (lab, web) or Job.User in Owners)"
    ),
    "Nodes in (a)": "accepts: at character 1, `Nodes in (a)`: Nodes must be a separate clause: it cannot be "
    "part of another "
    "condition "
    "(Name in (…) or Address in (…) may stand anywhere)",
}


@pytest.mark.parametrize(("text", "sentence"), MISTAKES.items())
def test_mistakes(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        check_choice(text, ())
    assert str(caught.value) == sentence


NAMED = Node(name="n1", capacity=(4_000, 0, 0, 0, 0, 0, 0, 0), attributes=(("Owner", "ann"),))
UNKNOWN = {
    'Job.Owner = "root"': (
        'accepts: at character 1, `Job.Owner = "root"`: a job has no Job.Owner (after `Job.`: User, Group,'
    ),
    "Job.Nope = 1 || Job.User in Owners": "accepts: at character 1, `Job.Nope = 1 || Job.User…`: a job has no Job.Nope",
    "Job.User = ann": (
        'accepts: at character 12, `ann`: the node has no attribute ann (a text must be in quotes: "ann")'
    ),
    "Job.User = Owner && Job.Labels.tier = web": "accepts: at character 39, `web`: the node has no attribute web",
    "Job.Grup = Owner": "a job has no Job.Grup (did you mean Job.Group?)",
}


@pytest.mark.parametrize(("text", "sentence"), UNKNOWN.items())
def test_what_a_node_accepts_names_what_jobs_and_the_node_have(text: str, sentence: str) -> None:
    named = msgspec.structs.replace(NAMED, accepts=text)
    with pytest.raises(InputError) as caught:
        check_names(named, Dimensions(("gpu",)))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "text", ["Job.GPU > 0", "Job.User in Owners", "Job.Name = Rack || Job.User = Owner", "Job.Tasks < Slots"]
)
def test_what_a_node_accepts_may_name_amounts_of_the_cluster(text: str) -> None:
    check_names(msgspec.structs.replace(NAMED, accepts=text), Dimensions(("gpu",)))


def test_a_node_that_accepted_so_before_still_does() -> None:
    with pytest.raises(InputError, match="1 has no unit, and Job\\.Memory is in bytes"):
        check_choice("Job.Memory < 1", ())
    check_choice("Job.Memory < 1", (), stored=True)
    core = world(node("n1").cpu(4).accepts("Job.Memory < 1"), node("n2").cpu(4))
    core.submit(job("a").cpu(1).memory("1G").group("web")).decide()
    assert where(core, "a") == []


def test_a_name_is_a_name() -> None:
    with pytest.raises(InputError, match="repels: 'a b' is not a name"):
        check_choice("", ("a b",))
    with pytest.raises(InputError, match="repels: gpu is given twice"):
        check_choice("", ("gpu", "gpu"))
    with pytest.raises(InputError, match="repels: 17 names are too many"):
        check_choice("", tuple(f"a{i}" for i in range(17)))


CONDITIONS = ("", "", LAB, "Job.User in Owners", "Job.Tasks < 3 || Job.CPU > 1", 'Job.User != "ann" && SSD')
NAMES = ((), (), ("gpu",), ("gpu", "old"))


def random_node(rng: Random, name: str) -> NodeBuilder:
    owners = rng.choice(("{ann,bob}", "{cid}"))
    made = node(name).cpu(rng.choice((1, 2, 4))).where(owners=owners, ssd=rng.random() < 0.5)
    return made.accepts(rng.choice(CONDITIONS)).repels(*rng.choice(NAMES))


def random_job(rng: Random, name: str) -> JobBuilder:
    made = job(name).cpu(rng.choice((1, 2))).tasks(rng.randint(1, 4)).group(rng.choice(("lab", "web")))
    made = made.user(rng.choice(("ann", "bob", "cid"))).tolerates(*rng.choice(NAMES)).limit(rng.choice(("1min", "1h")))
    return rng.choice((made, made, made.gang(), made.requires("SSD")))


def accepted(core: World, it: Job, name: str) -> bool:
    """The plain way: the condition on the node's attributes and those of the job, and every name tolerated."""
    spec = core.core.cluster.specs[core.core.cluster.index[name]]
    if set(spec.repels) - set(it.tolerates):
        return False
    if not spec.accepts:
        return True
    has: dict[str, Value] = {key.lower(): value for key, value in spec.attributes}
    facts: dict[str, Value] = {
        "job.user": it.user,
        "job.group": it.group,
        "job.tasks": it.tasks,
        "job.cpu": it.request[0] / 1000,
    }
    return plain.truth(parse_accepts(spec.accepts), plain.World(has | facts, {}, {})) is True


@examples(9)
@given(st.integers(0, 2**32))
def test_nothing_starts_where_it_is_not_accepted_and_a_restored_core_decides_the_same(seed: int) -> None:
    rng = Random(seed)
    core = world(*(random_node(rng, f"n{i}") for i in range(5)))
    for i in range(10):
        before = len(core.starts)
        if rng.random() < 0.4:
            core.change_node(random_node(rng, f"n{rng.randrange(5)}"))
        core.submit(random_job(rng, f"j{i}"))
        again = sent_away(core.core)
        assert promised_state(again) == promised_state(core.core)
        expected = again.decide(core.now).items
        assert core.decide() == list(expected)
        for start in core.starts[before:]:
            assert accepted(core, core.state(start.job).job, start.node), start
        if rng.random() < 0.5 and core.running:
            core.end(rng.sample(list(core.running.values()), 1), Outcome.SUCCEEDED)
        core.wait(30)
