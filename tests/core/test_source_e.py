"""Source E's jobs A and B through (i) to (viii): what is required at each moment, where they go, and the ranks."""

from __future__ import annotations

import pytest

from tests.core.builders import JobBuilder, NodeBuilder, World, group, job, node

LIMIT = 300_000_000


def a() -> JobBuilder:
    """(i), with the four amounts of the resource and its two clauses."""
    return (
        job("A").group("g").needs(cpu=4, memory="8G", network="500M", disk_read="50M", disk_write="50M")
        .requires("OSKernel >= 2.6.32 && Java >= 1.5 && NetworkAdjacent = True").ranks("0.5 × CPU + 0.5 × IdleNetwork")
    )  # fmt: skip


def b(*clauses: str) -> JobBuilder:
    """(iii) and (iv): GCC above 4.5, port 80, a disk of its own for as long as it has waited five minutes."""
    requirement = " && ".join(("GCC >= 4.5", "ExclusiveDisk = True && f(x) = (Waittime > 5min)", *clauses))
    return (
        job("B").group("g").needs(cpu=1, memory="2G", network="100M", disk_read="50M", disk_write="50M")
        .ports(port=80).requires(requirement).ranks("CPU")
    )  # fmt: skip


def server(name: str, address: str = "", **attributes: str | int) -> NodeBuilder:
    """A node with 8 cores, of a kernel, compiler and runtime that both accept."""
    facts = {"OSKernel": "4.4.0", "Java": "1.8", "GCC": "4.10", "Disks": 1, **attributes}
    amounts = {"memory": "64G", "network": "1G", "disk_read": "100M", "disk_write": "100M"}
    return node(name).cpu(8).offers(**amounts).at(address).rack("r1").where(**facts)


def now(made: World, name: str) -> tuple[str, str]:
    moment = made.core.constraints(made.ids[name])
    assert moment is not None
    return moment.requirement, moment.rank


def test_i_what_job_a_requires() -> None:
    made = World(group("g", 99), nodes=[server("old", OSKernel="2.6.9"), server("new", OSKernel="2.6.32")])
    made.submit(a())
    assert now(made, "A") == (
        "OSKernel >= 2.6.32 && Java >= 1.5 && Resource = <4,8G,500M,50M> && NetworkAdjacent = True",
        "0.5 × CPU + 0.5 × IdleNetwork",
    )
    made.decide()
    assert made.nodes_of("A") == ["new"]


def test_ii_data_locality_is_hard_for_15_seconds() -> None:
    made = World(group("g", 99), nodes=[server("n1", "192.168.1.119"), server("n2", "192.168.1.120").cpu(1)])
    local = "DataLocality in (192.168.1.120-121)"
    made.submit(job("hadoop").group("g").cpu(2).requires(f"{local} && f(x) = (Waittime > 15s)")).decide()
    assert now(made, "hadoop") == (f"{local} && Resource = <2>", "")
    assert made.wait(15).decide() == []
    made.wake()
    assert made.now == 15_000_001
    assert made.nodes_of("hadoop") == ["n1"]


def test_iii_to_vi_the_disk_is_hard_up_to_five_minutes_and_then_a_term_of_the_rank() -> None:
    made = World(group("g", 99), nodes=[server("n1", Disks=0)])
    made.submit(b()).decide()
    hard = "GCC >= 4.5 && Resource = <1,2G,100M,50M> && Port = 80"
    assert now(made, "B") == (f"{hard} && ExclusiveDisk = True", "CPU")
    made.wait(LIMIT / 1_000_000).decide()
    assert now(made, "B") == (f"{hard} && ExclusiveDisk = True", "CPU")
    made.cordon("n1").wake()
    assert made.now == LIMIT + 1
    assert now(made, "B") == (hard, "CPU + (ExclusiveDisk = True)")
    made.cordon("n1", "").decide()
    assert made.nodes_of("B") == ["n1"]


@pytest.mark.parametrize(
    ("rank", "text"),
    [
        ("CPU", "1 × (IdleCPU/8)"),
        ("CPU + (ExclusiveDisk = True)", "(IdleCPU/8) + (ExclusiveDisk = True)"),
        ("0.5 × CPU + 0.5 × IdleNetwork", "0.5 × (IdleCPU/8) + 0.5 × (IdleNetwork/1G)"),
        ("Disk + IdleCPU/4 + Memory", "(IdleDisk/100M) + IdleCPU / 4 + (IdleMemory/64G)"),
    ],
)
def test_iv_and_vi_a_rank_on_a_node_of_eight_cores(rank: str, text: str) -> None:
    made = World(group("g", 99), nodes=[server("n1")])
    assert made.core.match("", rank)[0].rank == text


def test_vii_job_b_waits_for_job_a_and_goes_where_it_runs() -> None:
    there = [server(f"n{i}", f"192.168.1.{i}", Disks=2) for i in (119, 120)]
    made = World(group("g", 99, "BackFill"), nodes=there)
    made.submit(b("JobDependency = A")).decide()
    assert now(made, "B")[0].endswith('&& ExclusiveDisk = True && JobDependency = "A"')
    assert made.running == {}
    made.cordon("n119").run(a())
    assert made.nodes_of("A") == made.nodes_of("B") == ["n120"]


def test_vii_as_it_is_printed() -> None:
    there = [server(f"n{i}", f"192.168.1.{i}") for i in (119, 120, 121)]
    made = World(group("g", 99), nodes=there)
    made.cordon("n119").run(a().tasks(2).spread(per_node=1))
    made.cordon("n120").cordon("n121")
    made.submit(b("JobDependency = A")).decide()
    assert now(made, "B")[0] == (
        "GCC >= 4.5 && Resource = <1,2G,100M,50M> && Port = 80 && ExclusiveDisk = True && Nodes in (192.168.1.120-121)"
    )


def test_nodes_that_share_an_address_are_printed_by_name() -> None:
    made = World(group("g", 99), nodes=[server(name, "127.0.0.1") for name in ("n1", "n2", "n3")])
    made.run(a().tasks(2).spread(per_node=1))
    for name in made.nodes_of("A"):
        made.cordon(name)
    made.submit(b("JobDependency = A")).decide()
    assert now(made, "B")[0].endswith("Nodes in (n1, n2)")


def test_viii_both_start_again_together() -> None:
    made = World(group("g", 99), nodes=[server("n1", Disks=2)])
    made.run(a(), b("JobDependency = A"))
    small = server("n2", Disks=2).cpu(4)
    made.add_node(small)
    made.add_node(server("n3", Disks=2))
    made.cordon("n3").lose_node("n1").decide()
    static = "OSKernel >= 2.6.32 && Java >= 1.5 && GCC >= 4.5"
    moving = "Resource = <5,10G,600M,100M> && NetworkAdjacent = True && Port = 80 && ExclusiveDisk = True"
    assert now(made, "A") == (f"{static} && {moving}", "0.5 × CPU + 0.5 × IdleNetwork")
    assert made.running == {}
    made.cordon("n3", "").decide()
    assert made.nodes_of("A") == made.nodes_of("B") == ["n3"]
    assert [start.ports for start in made.running.values()] == [(), (80,)]


@pytest.mark.parametrize(
    ("rank", "of_c", "of_d"),
    [("CPU + 2 × (ExclusiveDisk = True)", 2.5, 0.25), ("CPU + (ExclusiveDisk = True)", 1.5, 0.25), ("CPU", 0.5, 0.25)],
)
def test_ranks_of_the_nodes_c_and_d(rank: str, of_c: float, of_d: float) -> None:
    made = World(group("g", 99), nodes=[server("D"), server("C")])
    made.run(
        job("x").group("g").cpu(6).requires('Nodes in ("D") && ExclusiveDisk = True'),
        job("y").group("g").cpu(4).requires('Nodes in ("C")'),
    )
    assert {fit.node: fit.score for fit in made.core.match("", rank)} == {"C": of_c, "D": of_d}
    made.run(job("B").group("g").ranks(rank))
    assert made.nodes_of("B") == ["C"]
