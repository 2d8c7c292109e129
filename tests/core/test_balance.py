"""Multi-dimensional balance (B): the six-job example, weights, threshold and rotation, the gate, other node orders."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from cress.core.groups.policies.queue import MOST_PENDING
from cress.core.kernels.choice import precedence
from cress.core.placing.vetoes import Verdict
from cress.model.decisions import Start
from cress.model.times import SECOND
from tests.core.builders import JobBuilder, World, group, job, node, nodes
from tests.counted import calls_of

CPU_MEMORY = ("cpu", "memory")


def put(world: World, where: str, *jobs: JobBuilder) -> None:
    """Run these jobs on this node, whatever the order of the nodes would say."""
    others = [name for name in world.core.cluster.names if name != where]
    for name in others:
        world.cordon(name)
    world.run(*jobs)
    for name in others:
        world.cordon(name, "")


def imbalance(world: World, name: str = "") -> list[float]:
    """y of every node as it is, or with one task of a waiting job on it."""
    squares = world.core.books.balance.squares(world.state(name).shape if name else None)
    return [float(y) for y in np.sqrt(squares)]


# --- B's six jobs ----------------------------------------------------------------------------------------------------

# In the order in which they wait; g, the GPUs of job 5, is 4 by the text, 1 by a usage line, 3 by the final remainder.
SIX = [("5", 20, "500G", None), ("2", 30, "400G", 2), ("1", 40, "200G", 2), ("4", 40, "300G", 4), ("3", 30, "300G", 1),
       ("6", 30, "200G", 1)]  # fmt: skip


class Variant(NamedTuple):
    """GPUs of job 5, the weights in ninths, y with 5, then with 2, 1, or 1 and 4 as well, and what is left."""

    g: int
    weights: tuple[int, int, int]
    measures: tuple[float, float, float, float]
    left: tuple[int, int, int]


VARIANTS = [
    pytest.param(Variant(4, (1, 5, 3), (0.1155, 0.1866, 0.0544, 0), (0, 0, 0)), id="g = 4, as stated"),
    pytest.param(Variant(3, (1, 5, 3), (0.1333, 0.2177, 0.0943, 0.0471), (0, 0, 1)), id="g = 3, by the remainder"),
    pytest.param(Variant(1, (3, 5, 1), (0.1866, 0.2667, 0.1515, 0.1155), (0, 0, 3)), id="g = 1, by the usage line"),
]
GIB = 2**30


def six_jobs(g: int, policy: str, **options: Any) -> World:
    world = World(
        group("g", 1, policy), nodes=[node("a").cpu(100).memory("1000G").offers(gpu=10)], dimensions=("gpu",),
        balance_dimensions=CPU_MEMORY, **options,
    )  # fmt: skip
    for name, cpu, memory, gpu in SIX:
        world.submit(job(name).cpu(cpu).memory(memory).needs(gpu=g if gpu is None else gpu).group("g"))
    return world


def left(world: World) -> tuple[int, int, int]:
    free = dict(zip(world.dimensions.names, world.core.cluster.free(0), strict=True))
    return free["cpu"] // 1000, free["memory"] // GIB, free["gpu"] // 1000


def ninths(*weights: int) -> dict[str, Any]:
    names = ("cpu", "memory", "gpu")
    return {
        "balance_weights": ("initial",),
        "initial_weights": tuple((name, weight / 9) for name, weight in zip(names, weights, strict=True)),
    }


@pytest.mark.parametrize("case", VARIANTS)
def test_weights_come_from_the_utilisation_after_job_5(case: Variant) -> None:
    world = six_jobs(case.g, "FIFO", balance_weights=("utilisation",))
    world.decide(1)
    assert world.started() == ["5"]
    assert world.core.books.balance.weights() == pytest.approx([weight / 9 for weight in case.weights], rel=1e-6)
    assert imbalance(world) == pytest.approx([case.measures[0]], abs=5e-5)


@pytest.mark.parametrize("policy", ["BackFill", "FIFO"])
@pytest.mark.parametrize("case", VARIANTS)
def test_with_the_gate_5_1_and_4_run_and_2_is_held(case: Variant, policy: str) -> None:
    world = six_jobs(case.g, policy, balance_gate="on", **ninths(*case.weights))
    world.decide(1)
    assert world.started() == ["5"]
    with_5, with_2, with_1, with_4 = case.measures
    assert imbalance(world) == pytest.approx([with_5], abs=5e-5)
    assert imbalance(world, "2") == pytest.approx([with_2], abs=5e-5)
    assert imbalance(world, "1") == pytest.approx([with_1], abs=5e-5)
    world.decide(1)
    assert world.started() == ["5", "1"]
    assert world.veto("2").kind is Verdict.GATE
    assert imbalance(world) == pytest.approx([with_1], abs=5e-5)
    assert imbalance(world, "4") == pytest.approx([with_4], abs=5e-5)
    world.decide()
    assert world.started() == ["5", "1", "4"]
    assert imbalance(world) == pytest.approx([with_4], abs=5e-5)
    assert left(world) == case.left


@pytest.mark.parametrize("policy", ["FIFO", "BackFill"])
@pytest.mark.parametrize("case", VARIANTS)
def test_without_the_gate_5_and_2_run_and_nothing_else_fits(case: Variant, policy: str) -> None:
    world = six_jobs(case.g, policy, **ninths(*case.weights))
    world.decide()
    assert world.started() == ["5", "2"]
    assert imbalance(world) == pytest.approx([case.measures[1]], abs=5e-5)
    assert left(world) == (50, 100, 8 - case.g)


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "present", "weights"),
    [
        pytest.param([2, 5, 1], [1, 1, 1], [3 / 9, 5 / 9, 1 / 9], id="B's example"),
        pytest.param([2, 5, 4], [1, 1, 1], [1 / 9, 5 / 9, 3 / 9], id="the same with 40 % of the GPUs"),
        pytest.param([3, 3, 1], [1, 1, 1], [4 / 9, 4 / 9, 1 / 9], id="a tie for the first place"),
        pytest.param([3, 1, 1], [1, 1, 1], [5 / 9, 2 / 9, 2 / 9], id="a tie for the last place"),
        pytest.param([0, 0, 0], [1, 1, 1], [1 / 3, 1 / 3, 1 / 3], id="all equal"),
        pytest.param([2, 9, 1], [1, 0, 1], [3 / 4, 0, 1 / 4], id="one that is not there has no say"),
        pytest.param([7], [1], [1], id="one dimension"),
        pytest.param([7, 8], [0, 0], [0, 0], id="none"),
    ],
)
def test_weights_from_a_precedence_chart(values: list[float], present: list[int], weights: list[float]) -> None:
    out = np.zeros(len(values))
    precedence(np.array(values, np.float64), np.array(present, np.uint8), out)
    assert list(out) == pytest.approx(weights, rel=1e-15)


def test_weights_are_the_mean_of_the_chosen_parts() -> None:
    world = World(
        group("g", 9), nodes=[node("n").cpu(10).memory("10G")], balance_dimensions=CPU_MEMORY,
        initial_weights=(("cpu", 0.9), ("memory", 0.1)),
    )  # fmt: skip
    world.run(job("lean").cpu(1).memory("5G").group("g"))
    # initial 0.9 : 0.1; nobody waits: 0.5 : 0.5; more memory in use: 0.25 : 0.75.
    assert world.core.books.balance.weights() == pytest.approx([1.65 / 3, 1.35 / 3], rel=1e-6)
    world.run(job("fat").cpu(8).group("g"))
    assert world.core.books.balance.weights() == pytest.approx([2.15 / 3, 0.85 / 3], rel=1e-6), "the order changed"


def test_dimensions_that_the_cluster_lacks_have_no_weight() -> None:
    world = World(group("g", 9), nodes=[node("n").cpu(10).memory("10G")])
    assert world.core.books.balance.weights() == pytest.approx([0.5, 0.5, 0, 0])
    world.add_node(node("m").cpu(10).offers(network="1G"))
    assert world.core.books.balance.weights()[2] > 0
    world.lose_node("m")
    assert world.core.books.balance.weights() == pytest.approx([0.5, 0.5, 0, 0])


def test_a_dimension_that_a_node_lacks_is_left_out_for_that_node() -> None:
    world = World(
        group("g", 9), nodes=[node("with").cpu(8).memory("8G").offers(gpu=8), node("without").cpu(8).memory("8G")],
        dimensions=("gpu",), balance_dimensions=CPU_MEMORY, balance_weights=("initial",),
        initial_weights=(("cpu", 0.5), ("memory", 0.25), ("gpu", 0.25)),
    )  # fmt: skip
    task = job("on with").cpu(6).memory("2G").group("g")
    put(world, "with", task)
    put(world, "without", task.named("on without"))
    # with: d = .75, .25, 0, mean 1/3; without: d = .75, .25, mean .5, weights 2/3 and 1/3.
    d = np.array([0.75, 0.25, 0])
    expected = [np.sqrt(np.dot([0.5, 0.25, 0.25], (d - d.mean()) ** 2)), 0.25]
    assert imbalance(world) == pytest.approx(expected, rel=1e-6)


def test_with_one_dimension_everything_is_balanced() -> None:
    world = World(group("g", 9), nodes=nodes(3, cpu=4))
    put(world, "n2", job("some").cpu(3).group("g"))
    assert imbalance(world) == [0, 0, 0]


# --- who waits for lack of what --------------------------------------------------------------------------------------


def lacking(world: World) -> dict[str, int]:
    """B's r_i by dimension, where it is not 0."""
    counts = zip(world.core.cluster.balanced, world.core.gates.pending.jobs_lacking(), strict=True)
    return {name: count for name, count in counts if count}


def scarce(policy: str = "BackFill", **options: Any) -> World:
    """One node of 8 cores and 8 G, of which 2 cores and 6 G are free; g uses the rest, for ever."""
    world = World(
        group("g", 20, policy), group("h", 5), nodes=nodes(1, cpu=8, memory="8G"), preemption="off", **options
    )
    return world.run(job("runs").cpu(6).memory("2G").group("g"))


def test_a_job_counts_once_for_every_dimension_that_it_lacks_however_many_tasks_it_has() -> None:
    world = scarce()
    world.submit(
        job("cpu").cpu(3).tasks(50).group("g"),
        job("memory").memory("7G").group("g"),
        job("both").cpu(3).memory("7G").group("g"),
        job("fits").group("g"),
    ).decide()
    assert world.started() == ["runs", "fits"]
    assert lacking(world) == {"cpu": 2, "memory": 2}


def test_if_each_is_enough_somewhere_the_one_that_the_fewest_nodes_have_counts() -> None:
    world = World(
        group("g", 20, "BackFill"),
        nodes=[node("n1").cpu(8).memory("2G"), node("n2").cpu(2).memory("8G"), node("n3").cpu(2).memory("8G")],
        preemption="off",
    )
    world.submit(job("both").cpu(4).memory("4G").group("g")).decide()
    assert lacking(world) == {"cpu": 1}


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill"])
def test_jobs_behind_the_head_count_as_they_are_offered_next(policy: str) -> None:
    world = scarce(policy)
    heads = [job(f"head {i}").cpu(3).group("g").user("ann") for i in range(3)]
    world.submit(*heads, *(job(f"behind {i}").memory("7G").group("g").user("ann") for i in range(5))).decide()
    assert lacking(world) == {"cpu": 3, "memory": 5}
    world.cancel("head 1").cancel("behind 4").decide()
    assert lacking(world) == {"cpu": 2, "memory": 4}


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity"])
def test_at_most_so_many_jobs_of_a_queue_count(policy: str) -> None:
    world = scarce(policy)
    names = [f"j{i}" for i in range(MOST_PENDING + 70)]
    world.submit(*(job(name).cpu(3).group("g") for name in names)).decide()
    assert lacking(world) == {"cpu": MOST_PENDING}
    for name in names[:100:2]:
        world.cancel(name)
    world.decide()
    assert lacking(world) == {"cpu": MOST_PENDING}
    assert world.core.clone().gates.pending.jobs_lacking() == world.core.gates.pending.jobs_lacking()
    for name in names[1:80:2]:
        world.cancel(name)
    world.decide()
    assert lacking(world) == {"cpu": len(names) - 90}


def test_jobs_beyond_the_depth_of_backfill_do_not_count() -> None:
    world = scarce(backfill_depth=1)
    world.submit(*(job(f"j{i}").cpu(3).group("g") for i in range(5))).decide()
    assert lacking(world) == {"cpu": 2}


def test_jobs_of_a_group_that_cools_off_do_not_count() -> None:
    world = World(group("old", 1), group("new", 10), group("other", 1), nodes=nodes(1, cpu=9, memory="9G"))
    world.run(job("old").cpu(2).memory("1G").tasks(4).group("old"), job("runs").group("other"))
    world.submit(job("waits").group("other"), job("new").cpu(2).group("new")).decide()
    world.yield_victims()
    assert world.veto("old").kind is Verdict.COOLING
    before = lacking(world)
    world.wait(60).decide()
    assert lacking(world) == {**before, "cpu": before.get("cpu", 0) + 1}


def test_jobs_that_are_kept_by_the_quota_do_not_count() -> None:
    world = scarce(behind_blocked="quota_only")
    world.apply(group("g", 1), group("h", 5))
    world.submit(job("blocked").cpu(3).group("h"), job("at its quota").memory("7G").group("g")).decide()
    assert world.veto("at its quota").kind is Verdict.QUOTA
    assert lacking(world) == {"cpu": 1}


def test_jobs_of_a_user_at_his_limit_do_not_count() -> None:
    world = scarce("Capacity")
    world.apply(group("g", 6, "Capacity").with_options(user_limit_factor="1"), group("h", 5))
    world.submit(job("ann's").memory("7G").group("g")).decide()
    assert world.veto("ann's").kind is Verdict.USER_LIMIT
    assert lacking(world) == {}


def test_what_the_jobs_lack_weighs_more_in_the_next_choice() -> None:
    world = World(
        group("g", 20, "BackFill"), nodes=nodes(2, cpu=8, memory="8G"), balance_dimensions=CPU_MEMORY,
        balance_weights=("pending",), preemption="off",
    )  # fmt: skip
    world.submit(job("too much memory").memory("9G").group("g"), job("small").group("g")).decide()
    assert world.core.books.balance.weights() == pytest.approx([0.25, 0.75])


# --- threshold and rotation ------------------------------------------------------------------------------------------


def two_lopsided(threshold: float) -> World:
    """n1 uses 5 of 8 cores and 2 of 8 G, n2 3 and 2: 0.375 of the cluster. Memory balances both, n2 better."""
    world = World(
        group("g", 20), nodes=nodes(2, cpu=8, memory="8G"), balance_dimensions=CPU_MEMORY,
        balance_weights=("initial",), balance_threshold=threshold,
    )  # fmt: skip
    put(world, "n1", job("on n1").cpu(5).memory("2G").group("g"))
    put(world, "n2", job("on n2").cpu(3).memory("2G").group("g"))
    world.core.books.balance.cursor = 0
    assert world.core.books.balance.utilisation() == 0.375
    return world


@pytest.mark.parametrize(
    ("threshold", "chosen"),
    [
        pytest.param(0.376, "n1", id="below: the first that gets better"),
        pytest.param(0.375, "n2", id="at the threshold: the best of all"),
        pytest.param(0, "n2", id="above"),
        pytest.param(1, "n1", id="far below"),
    ],
)
def test_from_the_threshold_on_every_node_is_looked_at(threshold: float, chosen: str) -> None:
    world = two_lopsided(threshold)
    world.run(job("memory").cpu(0).memory("1G").group("g"))
    assert world.nodes_of("memory") == [chosen]


def test_below_the_threshold_the_search_goes_on_where_the_last_one_stopped() -> None:
    world = World(
        group("g", 20), nodes=nodes(4, cpu=8, memory="8G"), balance_dimensions=CPU_MEMORY,
        balance_weights=("initial",), balance_threshold=1,
    )  # fmt: skip
    for i in range(4):
        put(world, f"n{i + 1}", job(f"base {i}").cpu(6).group("g"))
    world.core.books.balance.cursor = 0
    chosen = [start.node for start in take(world, job("m").cpu(0).memory("1G").tasks(6).group("g"))]
    assert chosen == ["n1", "n2", "n3", "n4", "n1", "n2"]
    put(world, "n3", job("full of memory").cpu(0).memory("7G").group("g"))
    world.core.books.balance.cursor = 2
    chosen = [start.node for start in take(world, job("m2").cpu(0).memory("1G").tasks(2).group("g"))]
    assert chosen == ["n4", "n1"], "n3 has no room"


def test_below_the_threshold_without_a_node_that_gets_better_the_smallest_y_after_is_chosen() -> None:
    world = two_lopsided(1)
    world.run(job("cpu").group("g"))
    assert world.nodes_of("cpu") == ["n2"]
    assert world.core.books.balance.cursor == 0, "the rotation stays where it was"


def test_equal_nodes_go_by_registration() -> None:
    world = World(group("g", 20), nodes=[node(name).cpu(8).memory("8G") for name in ("z", "y", "a")])
    world.run(job("one").group("g"))
    assert world.nodes_of("one") == ["z"]


def take(world: World, spec: JobBuilder) -> list[Start]:
    world.submit(spec)
    return [each for each in world.decide() if isinstance(each, Start)]


# --- the gate --------------------------------------------------------------------------------------------------------


def gated(**options: Any) -> World:
    """Half the memory and a fifth of the cores are used; "fat" would make that worse.

    "lean" would make it better, but its user is at his limit: it waits although it fits, and blocks nobody.
    """
    world = World(
        group("g", 20, options.pop("policy", "FIFO")),
        group("limited", 10, "Capacity").with_options(user_limit_factor="0.1"),
        group("third", 1),
        nodes=nodes(1, cpu=100, memory="1000G"),
        balance_dimensions=CPU_MEMORY, balance_weights=("initial",), balance_gate="on", preemption="off", **options,
    )  # fmt: skip
    world.run(job("base").cpu(20).memory("500G").group("g"), job("a trace").cpu(0.001).group("limited"))
    world.submit(job("lean").cpu(10).group("limited"), job("fat").memory("200G").limit(9).group("g")).decide()
    assert world.veto("lean").kind is Verdict.USER_LIMIT
    return world


def test_a_held_unit_says_so_and_is_exempt_after_gate_hold_to_the_microsecond() -> None:
    world = gated()
    assert world.veto("fat").kind is Verdict.GATE
    assert world.veto("fat").until == 60 * SECOND
    assert world.core.next_wakeup() == 60 * SECOND
    world.wait(60, -1).decide()
    assert "fat" not in world.started()
    world.wait(0, 1).decide()
    assert world.started()[-1] == "fat"


def test_a_held_unit_is_let_go_as_soon_as_nobody_would_do_better() -> None:
    world = gated()
    world.wait(1).cancel("lean").decide()
    assert world.started()[-1] == "fat"


@pytest.mark.parametrize("policy", ["FIFO", "Priority", "Capacity", "BackFill"])
def test_a_held_unit_is_passed_over_in_every_policy(policy: str) -> None:
    world = gated(policy=policy)
    world.submit(job("behind").cpu(5).memory("10G").group("g")).decide()
    assert world.started()[-1] == "behind"


@pytest.mark.parametrize("mode", ["reserve", "quota_only"])
def test_a_held_unit_holds_no_other_group_back(mode: str) -> None:
    world = gated(behind_blocked=mode)
    world.submit(job("third").tasks(5).group("third")).decide()
    assert world.used("third") == 5, "five times its quota: the held unit does not count as tried"


def test_without_the_gate_the_same_unit_starts_at_once() -> None:
    world = World(
        group("g", 20), nodes=nodes(1, cpu=100, memory="1000G"), balance_dimensions=CPU_MEMORY,
        balance_weights=("initial",),
    )  # fmt: skip
    world.run(job("base").cpu(20).memory("500G").group("g"), job("fat").memory("200G").group("g"))


# --- orders of the nodes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "chosen"),
    [
        pytest.param("first", ["n1", "n1", "n2", "n2"], id="first: as long as it fits"),
        pytest.param("best_fit", ["n3", "n3", "n1", "n1"], id="best_fit: the fullest"),
        pytest.param("spread", ["n2", "n2", "n2", "n1"], id="spread: the emptiest"),
    ],
)
def test_other_orders_of_the_nodes(order: str, chosen: list[str]) -> None:
    """n1 has 4 of 8 cores in use, n2 0, n3 5 of 8."""
    world = World(group("g", 20), nodes=nodes(3, cpu=8), node_order=order)
    put(world, "n1", job("on n1").cpu(4).group("g"))
    put(world, "n3", job("on n3").cpu(5).group("g"))
    world.run(job("new").cpu(1.5).tasks(4).group("g"))
    assert world.nodes_of("new") == chosen


@pytest.mark.parametrize("order", ["first", "best_fit", "spread", "balance"])
def test_equal_nodes_go_by_registration_in_every_order(order: str) -> None:
    world = World(group("g", 20), nodes=[node(name).cpu(8).memory("8G") for name in ("z", "y", "a")], node_order=order)
    world.run(job("one").group("g"))
    assert world.nodes_of("one") == ["z"]


CPU_BOUND = job("cpu-bound").cpu(4).memory("2G").needs(disk_read="10M").group("g")
DISK_BOUND = job("disk-bound").cpu(0.5).memory("2G").needs(disk_read="100M").group("g")


@pytest.mark.parametrize("threshold", [0, 0.5, 1])
@pytest.mark.parametrize("first", [CPU_BOUND, DISK_BOUND], ids=lambda spec: f"{spec.name} first")
def test_applications_with_the_same_bottleneck_are_kept_apart(first: JobBuilder, threshold: float) -> None:
    """E, contribution 2: two cpu-bound and two disk-bound tasks on two nodes end as one of each per node.

    All four would fit on one node.
    """
    second = DISK_BOUND if first is CPU_BOUND else CPU_BOUND
    world = World(
        group("g", 20),
        nodes=nodes(2, cpu=10, memory="32G", disk_read="250M"),
        balance_threshold=threshold,
    )
    world.run(first.tasks(2)).run(second.tasks(2))
    assert sorted(world.nodes_of(first.name)) == ["n1", "n2"]
    assert sorted(world.nodes_of(second.name)) == ["n1", "n2"]


def test_a_whole_number_as_threshold_is_a_float_as_the_compiled_kernels_expect() -> None:
    assert type(two_lopsided(1).core.books.balance.threshold) is float


def _calls_of_refresh(count: int) -> int:
    """Return the calls of new weights on so many nodes with one disk each."""
    with_disks = [node(f"n{i}").cpu(4).disks("100M") for i in range(count)]
    books = World(group("g", 4), nodes=with_disks).core.books
    return calls_of(books.balance.refresh)


def test_new_weights_look_at_no_node_for_its_devices() -> None:
    assert _calls_of_refresh(40) == _calls_of_refresh(4)
