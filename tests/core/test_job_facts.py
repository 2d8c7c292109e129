"""Constraints that name the job itself: its user, its amounts; the same live, restored and for each member of a
unit.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.core.diagnostics.match_report import remarks_on
from cress.core.placing.match import Match
from cress.language.clauses import Rank
from cress.language.jobfacts import facts_of, for_job, keys_in
from cress.language.parser import check_names_of_jobs, parse_requirement
from cress.language.tree import Expression
from cress.model.errors import InputError
from cress.model.job import Job
from cress.model.resources import Dimensions
from cress.model.times import HOUR
from tests.core.builders import World, group, job, node
from tests.core.promises import promised_state
from tests.core.stories import sent_away
from tests.examples import examples
from tests.language import plain
from tests.language.strategies import conditions

NODES = (
    node("n1").cpu(8).memory("16G").where(owners="{ann,bob}", slots=4, owner="lab"),
    node("n2").cpu(8).memory("16G").where(owners="{cid}", slots=2, owner="ann"),
    node("n3").cpu(4).memory("4G").where(slots=9),
)


def world() -> World:
    return World(group("lab", 99), nodes=NODES)


WHERE = {
    "Job.User in Owners": "n1",
    "Owner = Job.User": "n2",
    "Owner = job.group": "n1",
    'Job.Name = "it"': "n1 n2 n3",
    "Slots > Job.Tasks": "n1 n3",
    "Memory >= 2 * Job.Memory": "n1 n2",
    "Memory - IdleMemory + Job.Memory <= 4G": "n1 n2 n3",
    "IdleMemory / Job.Memory >= 3": "n1 n2",
    "CPU / Job.CPU >= 4": "n1 n2",
    "Job.TimeLimit < 2h && Job.Priority > 5": "n1 n2 n3",
    "if(Job.Gang, Slots > 8, Slots < 4)": "n2",
    "defined(Job.Application) || Name = n3 || Slots = 9": "n3",
    "Job.Application is undefined && Slots = 9": "n3",
    "Job.Slots = 4": "",
    'Job.Type = "batch" && startswith(Owner, Job.User)': "n2",
}


@pytest.mark.parametrize(("requirement", "names"), WHERE.items())
def test_a_job_may_name_itself(requirement: str, names: str) -> None:
    core = world()
    it = job("it").cpu(2).memory("4G").group("lab").user("Ann").limit("1h").priority(7).tasks(3)
    core.submit(it.requires(requirement))
    wants = core.state("it").constraints.wants(0)
    first = Match(core.core.books.matching.context, wants).first_from_nothing()
    assert (
        " ".join(spec.name for spec, excluded in zip(core.core.cluster.specs, first, strict=True) if not excluded)
        == names
    )


def test_a_rank_may_as_well() -> None:
    core = world().run(job("it").cpu(2).memory("1G").group("lab").user("ann").ranks("Slots + 10 * (Owner = Job.User)"))
    assert [start.node for start in core.starts] == ["n2"]


def test_what_it_waits_for_is_told_with_its_own_values() -> None:
    core = world().submit(job("it").group("lab").user("eve").requires("Job.User in Owners && f(x) = (Waittime > 1h)"))
    core.decide()
    assert core.why("it") == (
        'no node satisfies Job.User ("eve") in Owners (3 of 3 nodes do not); '
        'Job.User ("eve") in Owners turns soft in 1h'
    )
    now = core.core.constraints(core.state("it").job.id)
    assert now is not None
    assert now.requirement == 'Job.User ("eve") in Owners && Resource = <1>'


def test_users_do_not_share_what_is_known_of_nodes_and_jobs_of_one_user_do() -> None:
    core = world()
    for name, user in (("a", "ann"), ("b", "ann"), ("c", "cid")):
        core.submit(job(name).cpu(9).group("lab").user(user).requires("Job.User in Owners"))
    assert core.state("a").shape is core.state("b").shape
    assert core.state("a").shape is not core.state("c").shape


def test_a_restored_core_knows_the_job_as_before() -> None:
    core = world()
    core.submit(
        job("first").cpu(8).group("lab").user("cid"),
        job("it").cpu(8).group("lab").user("cid").requires("Job.User in Owners"),
    )
    again = sent_away(core.core)
    assert promised_state(again) == promised_state(core.core)
    assert again.decide(core.now).items == core.apart().decide(core.now).items


MISTAKES = {
    "Job.Usr = 1": "at character 1, `Job.Usr = 1`: a job has no Job.Usr (did you mean Job.User?)",
    "Job.User.Name = 1": "at character 1, `Job.User.Name = 1`: a job has no Job.User.Name (did you mean Job.Name?)",
    "Job.TPU > 0": "at character 1, `Job.TPU > 0`: a job has no Job.TPU (after `Job.`: User, Group, Name, Type, "
    "Application, "
    "Workload, Priority, Tasks, Gang, TimeLimit, CPU, Memory, Network, DiskRead, DiskWrite, IOPSRead, "
    "IOPSWrite, gpu, Labels.…)",
    'away_from("Job.Prio > 3")': 'at character 11, `"Job.Prio > 3")`: at character 1, `Job.Prio > 3`: a job has no '
    "Job.Prio "
    "(did you mean Job.Priority?)",
    "Memory >= Job.CPU": "at character 1, `Memory >= Job.CPU`: Memory is in bytes and Job.CPU is not (amounts of "
    "one kind, or "
    "shares such as IdleMemory / Memory)",
    "Job.Memory >= 2": "at character 15, `2`: 2 has no unit, and Job.Memory is in bytes (a unit: 2G, or 2B)",
    "Job.Memory >= 50%": (
        "at character 15, `50%`: 50% of what? Job.Memory is an amount, not a share (Job.Memory / Memory is a share)"
    ),
    'near("Job.Memory > 2")': 'at character 6, `"Job.Memory > 2")`: at character 14, `2`: 2 has no unit, and '
    "Job.Memory is in bytes "
    "(a unit: 2G, or 2B)",
    "SSD && f(x) = (Job.Priority > 3)": "at character 16, `Job.Priority > 3)`: f(x) can only compare Waittime and ClusterLoad with "  # noqa: E501
    "constants (such as f(x) = (Waittime > 15s) or f(x) = (ClusterLoad < 80% || Waittime > 5min))",
}


@pytest.mark.parametrize(("text", "sentence"), MISTAKES.items())
def test_mistakes(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        check_names_of_jobs(text, parse_requirement(text), Dimensions(("gpu",)))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "text", ["Job.GPU > 0", "GPU >= 2 * job.gpu", 'away_from("Job.GPU > 0", Rack)', "Job.Labels.tpu = 1"]
)
def test_an_amount_of_the_cluster_is_an_attribute_of_the_job(text: str) -> None:
    check_names_of_jobs(text, parse_requirement(text), Dimensions(("gpu",)))


def test_a_job_that_was_accepted_before_keeps_a_text_that_would_be_refused_now() -> None:
    for text in ("Job.Memory >= 2", 'away_from("Job.Memory >= 2")', "Job.TPU > 0"):
        assert str(parse_requirement(text, stored=True)) == str(parse_requirement(text, stored=True))


def test_without_a_job_there_is_nothing_to_name() -> None:
    core = world()
    assert remarks_on(core.core.books, "Job.User in Owners", "") == (
        "Job.User is an attribute of a job, and no job is asked for",
    )
    assert not any(each.satisfied for each in core.core.match("Job.User in Owners"))


@examples(20)
@given(conditions, st.sampled_from(("ann", "r1", "4.5", "n1")))
def test_a_fact_counts_as_an_attribute_that_every_node_has(expression: Expression, user: str) -> None:
    """``Zone`` in any expression is read as Job.User: the job's value, or that of a node that has it."""
    text = str(expression).replace("zone", "Job.User")
    requirement, rank = parse_requirement(text, stored=True), Rank()
    it = Job(id=1, group="g", request=(0,) * 7, user=user, time_limit=HOUR)
    facts = facts_of(it, Dimensions(), "g")
    known = tuple((key, facts[key]) for key in sorted(keys_in(requirement, rank)) if key in facts)
    for_it, _ = for_job(requirement, rank, known)
    zone = plain.World({"job.user": user, "gcc": "4.10"}, dict.fromkeys(DIMENSIONS, 0), dict.fromkeys(DIMENSIONS, 1000))
    for before, after in zip(requirement.clauses, for_it.clauses, strict=True):
        assert plain.truth(before.expression, zone) is plain.truth(after.expression, zone)


DIMENSIONS = (*Dimensions().names, "gpu")
