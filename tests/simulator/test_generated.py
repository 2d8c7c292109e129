"""Generated workloads: the same from the same seed, loaded as asked, and possible to run."""

from __future__ import annotations

import numpy as np
import pytest

from cress.model.devices import capacity_with, check_devices
from cress.model.errors import InputError
from cress.simulator.traces import load_workload
from cress.simulator.traces.generated import GeneratedParameters, parse

SMALL = "generated:jobs=3000,nodes=50,groups=7,shapes=40,load=0.8"


def test_the_same_seed_gives_the_same_workload() -> None:
    one, two, other = (load_workload(SMALL, None, seed) for seed in (5, 5, 6))
    assert one.cluster == two.cluster
    assert one.groups == two.groups
    assert one.requests == two.requests
    for name in ("submit", "run", "limit", "tasks", "request_index", "user_index", "group_index", "priority"):
        assert (getattr(one, name) == getattr(two, name)).all()
    assert one.submit.tolist() != other.submit.tolist()


def test_it_is_what_was_asked_for() -> None:
    work = load_workload(SMALL, None, 1)
    assert (len(work), len(work.cluster.nodes), len(work.groups), len(work.requests)) == (3000, 50, 7, 40)
    amounts = np.array(work.requests)[work.request_index]
    total = np.array(work.cluster.total())
    there = total > 0
    asked = [name for k, name in enumerate(work.cluster.dimensions.names) if amounts[:, k].any()]
    assert asked == [
        "cpu", "memory", "network", "disk_read", "gpu",
    ]  # fmt: skip
    load = (amounts * (work.tasks * work.run)[:, None].astype(float)).sum(axis=0)[there] / total[there]
    assert load.max() / work.submit[-1] == pytest.approx(0.8, rel=0.02)
    capacity = np.array([node.capacity for node in work.cluster.nodes])
    assert all((capacity >= np.array(request)).all(axis=1).any() for request in work.requests)
    assert len({node.capacity for node in work.cluster.nodes}) == 5
    assert (work.run <= work.limit).all()
    assert work.gang.any()
    assert (work.tasks[work.gang] > 1).all()
    assert (~work.gang & (work.tasks > 1)).any()
    assert not work.notes


def test_constrained_jobs_change_nothing_else() -> None:
    plain = load_workload("generated:jobs=2000", None, 3)
    work = load_workload("generated:jobs=2000,constrained=0.4", None, 3)
    assert (work.submit == plain.submit).all()
    assert (work.tasks == plain.tasks).all()
    assert [node.capacity for node in work.cluster.nodes] == [node.capacity for node in plain.cluster.nodes]
    assert work.template_index is not None
    assert 0.35 < (work.template_index > 0).mean() < 0.45
    wishes = [work.template(i) for i in range(2000)]
    assert any(wish.max_per_node for wish in wishes)
    assert any("NetworkAdjacent" in wish.requirement for wish in wishes)
    assert all(not gang for wish, gang in zip(wishes, work.gang.tolist(), strict=True) if wish.ports)
    assert dict(work.cluster.nodes[0].attributes)["OSKernel"]
    assert not plain.cluster.nodes[0].attributes


def test_nodes_may_know_their_devices_and_nothing_else_changes() -> None:
    plain, some, every = (
        load_workload(f"{SMALL},constrained=0.5{more}", None, 5) for more in ("", ",devices=0.5", ",devices=1")
    )
    for work in (some, every):
        assert [node.capacity for node in work.cluster.nodes] == [node.capacity for node in plain.cluster.nodes]
        assert work.submit.tolist() == plain.submit.tolist()
        assert work.templates == plain.templates
    known = [bool(node.devices) for node in some.cluster.nodes]
    assert sum(known) == round(len(known) / 2)
    for node in every.cluster.nodes:
        check_devices(node.devices, every.cluster.dimensions)
        assert capacity_with(node.capacity, node.devices, every.cluster.dimensions) == node.capacity
        facts = dict(node.attributes)
        assert (facts["Disks"], facts.get("GPUs", 0) * 1000) == (2, node.capacity[-1])
        assert "OSKernel" in facts


def test_quotas_share_the_cores() -> None:
    work = load_workload(SMALL, None, 1)
    cores = work.cluster.total()[0]
    assert 0.95 * cores <= sum(group.quota.scalar for group in work.groups) <= cores
    assert len({group.policy for group in work.groups}) == 4


def test_more_arrive_by_day_than_by_night() -> None:
    work = load_workload("generated:jobs=20000,nodes=20", None, 1)
    hour = (work.submit // 3_600_000_000) % 24
    whole_days = work.submit < work.submit[-1] // 86_400_000_000 * 86_400_000_000
    noon, midnight = (whole_days & (hour >= 9) & (hour < 15)), (whole_days & ((hour >= 21) | (hour < 3)))
    assert noon.sum() > 2 * midnight.sum() > 0


WRONG = {
    "unknown": ("job=5", "generated:job=5: job: unknown parameter (did you mean jobs?)"),
    "twice": ("jobs=5,jobs=6", "jobs: is given twice (once)"),
    "half a job": ("jobs=0.5", "jobs: '0.5' is not a whole number (jobs=10000)"),
    "none": ("nodes=0", "nodes: '0' is out of range (a whole number from 1 to 10,000,000)"),
    "no value": ("load", "load: '' is not a number (load=0.9)"),
    "too often": ("gangs=2", "gangs: '2' is out of range (a number from 0 to 1)"),
    "endless": ("load=nan", "load: 'nan' is out of range"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_parameters_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_defaults_hold_where_nothing_is_said() -> None:
    assert parse("") == GeneratedParameters()
    assert parse("jobs=7, load=0.5") == GeneratedParameters(jobs=7, load=0.5)
