"""Sizing: the least cluster for a trace, against trying every size; separate clusters; what people read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from cress.cli.main import app
from cress.model.errors import InputError
from cress.model.node import Node
from cress.model.resources import Dimensions
from cress.simulator import run
from cress.simulator.request import Request
from cress.simulator.sizing import size
from cress.simulator.sizing.criteria import Criteria, figures_of
from cress.simulator.sizing.kinds import OneNodeKind, Proportional, kinds_of
from cress.simulator.sizing.output import rows_of
from cress.simulator.sizing.request import SizePlan, SizeRequest
from cress.simulator.workload import SimulatedCluster
from tests.simulator.builders import swf_line, write_swf

MIXED = "mixed:nodes=3,days=1,run=1800,tasks=4,groups=2,applications=1,databases=0.15"
RACKS = """nodes:
  - {name: w-1, rack: r1, resource: '<4, 16G>'}
  - {name: w-2, rack: r2, resource: '<4, 16G>'}
"""
NODE = "nodes:\n  - {name: n, count: 2, resource: '<4, 8G>'}\n"


def jobs_table(count: int = 60) -> str:
    """Jobs of different widths and lengths, so that waits depend on the number of nodes in no simple way."""
    rows = ["job,submit,run,cpu,tasks,group"]
    rows += [f"j{i},{i * 40},{100 + i * 37 % 400},{1 + i % 4},{1 + i * 7 % 5},{'ab'[i % 2]}" for i in range(count)]
    return "\n".join(rows) + "\n"


def request(folder: Path, trace: str, *, policy: str = "FIFO", cluster: str = NODE, **more: object) -> SizeRequest:
    """A sizing of this table of jobs, or generated workload."""
    known = ("criteria", "node_resource", "vary", "separate")
    path = None
    if trace.partition(":")[0] != "mixed":
        (folder / "jobs.csv").write_text(trace)
        trace = str(folder / "jobs.csv")
        path = folder / "c.yaml"
        path.write_text(cluster)
    base = Request(trace=trace, out=folder / "out", cluster=path, policies=(policy,))
    base = replace(base, **{key: value for key, value in more.items() if key not in known})  # type: ignore[arg-type]
    return SizeRequest(run=base, **{key: value for key, value in more.items() if key in known})  # type: ignore[arg-type]


def passing(plan: SizePlan, sizes: range) -> set[int]:
    """The sizes that are enough: each of them simulated."""
    found = set()
    for each in sizes:
        cluster = plan.scaling.cluster(each)
        groups = size.fitted_groups(plan, cluster)
        ready = replace(plan.plan, workload=replace(plan.plan.workload, cluster=cluster, groups=groups))
        result = run.simulate(ready, ready.choices[0])
        if plan.request.criteria.hold(figures_of(result, plan.subsets)):
            found.add(each)
    return found


@pytest.mark.parametrize("policy", ["FIFO", "BackFill"])
@pytest.mark.parametrize("wait", [0, 60, 400])
def test_it_is_the_least_stable_size_of_all(tmp_path: Path, policy: str, wait: int) -> None:
    plan = size.plan(request(tmp_path, jobs_table(), policy=policy, criteria=Criteria(wait_p95=wait * 1_000_000)))
    (found,) = size.size_all(plan)
    enough = passing(plan, range(1, found.shared.size + 3))
    assert {found.shared.size, found.shared.size + 1, found.shared.size + 2} <= enough
    assert found.shared.size - 1 not in enough
    # Smaller sizes that pass are followed by one that does not.
    stable = [n for n in sorted(enough) if {n, n + 1, n + 2} <= enough]
    assert found.shared.size in stable


def rows(head: str, *lines: str) -> str:
    """A table with these columns after the name, the submission and the run time."""
    return "\n".join([f"job,submit,run,{head}", *(f"j{i},{line}" for i, line in enumerate(lines))]) + "\n"


GPUS = """dimensions: [gpu]
nodes:
  - {name: cpu, count: 4, resource: '<4, 8G>'}
  - {name: gpu, count: 1, resource: '<4, 8G, gpu=1>'}
"""
TEN = "nodes:\n  - {name: n, count: 10, resource: '<4, 8G>'}\n"
KEPT = "Name: a\nResourceQuota: 36\nLendable: 0\n\nName: b\nResourceQuota: 4\n"
WAITS, AT_ONCE = Criteria(), Criteria(wait_p95=0)
IN_TIME = Criteria(wait_p95=None, missed=0.0)
# Waits, shares and lacks that are the same on many sizes say nothing about larger ones: the answer is that of trying
# every size.
ENOUGH: dict[str, tuple[str, Criteria, int, dict[str, str]]] = {
    "the same wait on many sizes": (rows("cpu,tasks", "0,1h,4,40", "30min,2h,2,30"), WAITS, 41, {}),
    "jobs that come at once": (rows("cpu", *["0,1h,4"] * 14), WAITS, 14, {}),
    "a burst after a month": (rows("cpu", "0,10,1", *["30d,1h,4"] * 14), WAITS, 14, {}),
    "services one after another": (
        rows("cpu,type,tasks,until", *(f"{i * 2}h,,4,service,14,{i * 2 + 2}h" for i in range(4))),
        WAITS,
        14,
        {},
    ),
    "a service that lacks all its tasks": (
        rows("cpu,type,tasks,until", "0,,4,service,14,24h", "23h,,4,service,3,24h"),
        WAITS,
        17,
        {},
    ),
    "a service that overlaps another shortly": (
        rows(
            "cpu,type,tasks,until",
            *(f"{i * 10}h,,4,service,7,{i * 10 + 10}h" for i in range(6)),
            "11h,,4,service,7,11.1h",
        ),
        WAITS,
        14,
        {},
    ),
    "deadlines that all are missed": (rows("cpu,time_limit,deadline", *["0,1h,4,1h,90min"] * 14), IN_TIME, 14, {}),
    "few nodes with what is asked for": (rows("cpu,gpu", *["0,1h,1,1"] * 5), WAITS, 23, {"cluster": GPUS}),
    "quotas that are not lent": (rows("cpu,group", *["0,1h,4,b"] * 8), WAITS, 17, {"cluster": TEN, "conf": KEPT}),
    # One user may use a half of the quota, which is the whole cluster.
    "a limit of each user that grows with the cluster": (
        rows("cpu,user", *["0,1h,4,ada"] * 6),
        WAITS,
        12,
        {"policy": "Capacity", "option": "user_limit_factor=0.5"},
    ),
    "jobs after others": (rows("cpu,tasks,after", "0,1h,4,2,", "0,1h,4,9,j0", "0,1h,4,3,j0"), AT_ONCE, 10, {}),
}


@pytest.mark.parametrize(("table", "criteria", "least", "files"), ENOUGH.values(), ids=ENOUGH)
def test_it_is_what_trying_every_size_finds(
    tmp_path: Path, table: str, criteria: Criteria, least: int, files: dict[str, str]
) -> None:
    groups = None
    if "conf" in files:
        groups = tmp_path / "Group.conf"
        groups.write_text(files["conf"])
    cluster = files.get("cluster", NODE)
    asked = request(tmp_path, table, criteria=criteria, cluster=cluster, groups=groups)
    policies, options = (tuple(files.get(key, "").split()) for key in ("policy", "option"))
    asked = replace(asked, run=replace(asked.run, policies=policies or asked.run.policies, options=options))
    plan = size.plan(asked)
    assert size.size_all(plan)[0].shared.size == least
    assert passing(plan, range(1, least + 3)) == {least, least + 1, least + 2}


HELD = "licences: {solver: 2}\n"
NEVER: dict[str, tuple[str, Criteria, dict[str, str], str]] = {
    "deadlines of jobs that wait for a licence": (
        rows("cpu,time_limit,deadline,licences", *["0,1h,4,1h,90min,solver"] * 4),
        IN_TIME,
        {"cluster": NODE + HELD},
        "50.00% of the deadlines are missed, though room was never short",
    ),
    "a wait between two waits": (
        rows("cpu,licences", *(f"{i},333s,1,solver" for i in range(12))),
        WAITS,
        {"cluster": NODE + HELD},
        "the waits is 27m, though room was never short",
    ),
    "licences": (
        rows("cpu,licences", *["0,1h,1,solver"] * 6),
        WAITS,
        {"cluster": NODE + HELD},
        "the waits is 2h, though room was never short",
    ),
    "a limit of running jobs": (
        rows("cpu", *["0,1h,4"] * 6),
        WAITS,
        {"conf": "Name: default\nResourceQuota: 4\nMaxRunningJobs: 2\n"},
        "the waits is 2h, though room was never short",
    ),
    "a largest quota": (
        rows("cpu", *["0,1h,4"] * 6),
        WAITS,
        {"conf": "Name: default\nResourceQuota: 4\nMaxQuota: 8\n"},
        "the waits is 2h, though room was never short",
    ),
    "a gang for one rack of two": (
        rows("cpu,tasks,gang,max_per_rack", "0,1h,1,6,true,2"),
        WAITS,
        {"cluster": RACKS},
        "job j0 still does not run, though room was never short",
    ),
    "a job that is refused": (
        rows("cpu,type,when,until", "0,10,1,cron,61 * * * *,1h", "0,10,1,,,"),
        WAITS,
        {},
        "job j0 is refused",
    ),
}


@pytest.mark.parametrize(("table", "criteria", "files", "told"), NEVER.values(), ids=NEVER)
def test_no_size_is_enough_only_where_room_was_never_short(
    tmp_path: Path, table: str, criteria: Criteria, files: dict[str, str], told: str
) -> None:
    groups = None
    if "conf" in files:
        groups = tmp_path / "Group.conf"
        groups.write_text(files["conf"])
    cluster = files.get("cluster", NODE)
    plan = size.plan(request(tmp_path, table, criteria=criteria, cluster=cluster, groups=groups))
    with pytest.raises(InputError) as caught:
        size.size_all(plan)
    assert told in str(caught.value)
    assert "no number of nodes is enough" in str(caught.value)
    assert not passing(plan, range(1, 16))


@pytest.mark.parametrize("columns", ["cpu,time_limit,deadline", "cpu,time_limit,deadline,type"])
def test_deadlines_shorter_than_the_run_times_are_told_before_anything_is_simulated(
    tmp_path: Path, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "simulate", None)
    more = "," * columns.count("type")
    table = rows(columns, f"0,1h,4,1h,90min{more}", f"0,2h,4,2h,90min{more}", f"0,30d,4,30d,2h{more}")
    with pytest.raises(InputError) as caught:
        size.plan(request(tmp_path, table, criteria=Criteria(wait_p95=None, missed=0.5)))
    told = "66.67% of the deadlines are shorter than the run times; job j1 runs for 2h and should end within 90m"
    assert f"no number of nodes is enough: {told}" in str(caught.value)
    # Two of three may be missed.
    size.plan(request(tmp_path, table, criteria=Criteria(wait_p95=None, missed=0.67)))


def test_a_search_that_ends_at_the_largest_size_does_not_say_that_none_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Proportional, "most", 9)
    plan = size.plan(request(tmp_path, rows("cpu", *["0,1h,4"] * 14)))
    with pytest.raises(InputError, match=r"FIFO: not found: with 9 nodes .* is 1h, more were not tried"):
        size.size_all(plan)


def test_processors_are_found_beyond_sizes_that_look_alike(tmp_path: Path) -> None:
    lines = [swf_line(1, 0, 3600, 40, 3600), *(swf_line(i, 10, 3600, 30, 3600) for i in range(2, 9))]
    base = Request(trace=str(write_swf(tmp_path / "log.swf", lines)), out=tmp_path / "out")
    (found,) = size.size_all(size.plan(SizeRequest(run=base, criteria=Criteria(wait_p95=0))))
    assert found.shared.size == 40 + 7 * 30


def test_a_shorter_wait_takes_more_nodes(tmp_path: Path) -> None:
    sizes = []
    for wait in (3600, 300, 1):
        plan = size.plan(request(tmp_path, jobs_table(), criteria=Criteria(wait_p95=wait * 1_000_000)))
        sizes.append(size.size_all(plan)[0].shared.size)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_one_kind_varies_and_the_others_stay(tmp_path: Path) -> None:
    cluster = NODE + "  - {name: big, count: 3, resource: '<16, 64G>'}\n"
    plan = size.plan(request(tmp_path, jobs_table(), cluster=cluster, vary="n", criteria=Criteria(wait_p95=10**11)))
    (found,) = size.size_all(plan)
    assert found.shared.kinds == {"n": found.shared.size, "big": 3}
    assert found.shared.size == 0
    assert len(found.shared.result.run.workload.cluster.nodes) == 3
    # People are told of all nodes first.
    _, rows = rows_of(plan, [found])
    assert [(label, cells) for label, cells in rows[:3]] == [
        ("nodes", ["3"]),
        ("of these, n", ["0"]),
        ("of these, big", ["3"]),
    ]


ZONES = """nodes:
  - {name: a, count: 2, resource: '<4, 16G>', attributes: {zone: a}}
  - {name: b, count: 2, resource: '<4, 16G>', attributes: {zone: b}}
"""


@pytest.mark.parametrize(("vary", "enough"), [("a", 5), ("", 10)])
def test_a_gang_for_which_a_few_more_nodes_are_too_few_gets_as_many_as_it_needs(
    tmp_path: Path, vary: str, enough: int
) -> None:
    (tmp_path / "c.yaml").write_text(ZONES)
    (tmp_path / "jobs.yaml").write_text(
        "jobs:\n- {name: a, run: 10min, gang: true, within: zone, tasks: 20, resource: '<1, 1G>'}\n"
    )
    options = ["--vary", vary] if vary else []
    result = cress(
        "size", tmp_path / "jobs.yaml", "--cluster", tmp_path / "c.yaml", *options, "--out", tmp_path / "out"
    )
    assert result.exit_code == 0, result.stderr
    (policy,) = json.loads((tmp_path / "out" / "size.json").read_text())["policies"]
    assert policy["size"] <= enough
    assert max(policy["kinds"].values()) == 5


@pytest.mark.parametrize(("requirement", "size"), [('Rack = "r2"', 2), ("Nodes in (w-2)", 2), ('Rack = "r1"', 1)])
def test_jobs_may_ask_for_what_only_some_nodes_of_a_kind_are(tmp_path: Path, requirement: str, size: int) -> None:
    (tmp_path / "c.yaml").write_text(RACKS)
    (tmp_path / "jobs.yaml").write_text(
        f"jobs:\n- {{name: a, run: 1min, resource: '<1, 1G>', requirement: {json.dumps(requirement)}}}\n"
    )
    result = cress("size", tmp_path / "jobs.yaml", "--cluster", tmp_path / "c.yaml", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    (policy,) = json.loads((tmp_path / "out" / "size.json").read_text())["policies"]
    assert policy["size"] == size


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ("requirement: 'Rack = \"r9\"'", 'no node that is large enough could ever satisfy Rack = "r9"'),
        ("resource: '<5, 1G>'", "a task asks for 5 cores, memory 1G"),
        ("licences: {solver: 2}", "there is no licence solver"),
    ],
)
def test_a_job_that_fits_nowhere_is_told_why(tmp_path: Path, asks: str, told: str) -> None:
    (tmp_path / "c.yaml").write_text(RACKS)
    text = "".join(f"- {{name: {name}, run: 1min, {asks}}}\n" for name in "abc")
    (tmp_path / "jobs.yaml").write_text("jobs:\n" + text)
    result = cress("size", tmp_path / "jobs.yaml", "--cluster", tmp_path / "c.yaml")
    assert result.exit_code == 2, result.stdout
    words = f"job a fits on no node, however many there are: {told}; 2 other jobs fit on none either"
    assert words in result.stderr


def nodes(**counts: int) -> SimulatedCluster:
    """A cluster of these kinds, each in two racks; kinds differ in size."""
    dimensions = Dimensions()
    return SimulatedCluster(
        dimensions,
        tuple(
            Node(name=f"{name}-{i + 1}", capacity=dimensions.vector(cpu=1000 * (k + 1)), rack=f"r{i % 2}")
            for k, (name, count) in enumerate(counts.items())
            for i in range(count)
        ),
    )


def test_kinds_are_multiplied_in_proportion() -> None:
    cluster = nodes(small=6, large=3)
    kinds = kinds_of(cluster)
    assert [(kind.name, len(kind.nodes)) for kind in kinds] == [("small", 6), ("large", 3)]
    scaling = Proportional(cluster, kinds)
    assert [tuple(scaling.counts(n).values()) for n in (1, 2, 3, 8, 9, 10)] == [
        (1, 0),
        (1, 1),
        (2, 1),
        (5, 3),
        (6, 3),
        (7, 3),
    ]
    larger = scaling.cluster(12)
    assert [node.name for node in larger.nodes[5:9]] == ["small-6", "small+1", "small+2", "large-1"]
    assert [node.rack for node in larger.nodes[6:8]] == ["r0", "r1"]
    assert len({node.name for node in larger.nodes}) == 12
    with pytest.raises(InputError, match=r"there is no kind of nodes 'smal' \(did you mean small\?\)"):
        OneNodeKind(cluster, kinds, "smal")


def test_kinds_with_names_of_one_stem_differ_by_a_number() -> None:
    cluster = nodes(a=1, b=1)
    mixed = replace(cluster, nodes=tuple(replace_name(node, f"node{i}") for i, node in enumerate(cluster.nodes)))
    assert [kind.name for kind in kinds_of(mixed)] == ["node", "node-2"]


def replace_name(node: Node, name: str) -> Node:
    """The node under another name."""
    return Node(name=name, capacity=node.capacity)


def test_separate_clusters_need_more_nodes_together_and_are_measured_as_one(tmp_path: Path) -> None:
    plan = size.plan(request(tmp_path, MIXED, separate="group"))
    (found,) = size.size_all(plan)
    assert [each.subset for each in found.subsets] == ["services1", "services2", "batch1", "batch2"]
    assert found.separate_size == sum(each.size for each in found.subsets) > found.shared.size
    assert found.fewer == pytest.approx(1 - found.shared.size / found.separate_size)
    apart = found.separate
    assert apart is not None
    work = apart.run.workload
    assert len(work.cluster.nodes) == found.separate_size
    # Nothing was lost: each job runs where its group has its nodes, and as long as on the shared cluster.
    owner = np.array([node.name.partition("-")[0] for node in work.cluster.nodes])
    names = np.array(apart.run.group_names)[apart.run.group_of]
    attempts = apart.run.attempts
    assert (owner[attempts.node] == names[attempts.job]).all()
    assert (np.diff(attempts.start) >= 0).all()
    assert apart.analysis.summary["jobs_finished"] == found.shared.result.analysis.summary["jobs_finished"]
    assert apart.analysis.summary["services_short_worst"] <= 0.001
    for each in found.subsets:
        assert each.figures.wait_p95 <= 600_000_000


def test_waits_count_for_each_part(tmp_path: Path) -> None:
    """One wide job of group b waits long; of all jobs that is less than one in twenty."""
    rows = [
        "job,submit,run,cpu,group",
        *(f"a{i},{i * 100},50,1,a" for i in range(40)),
        "b1,100,600,4,b",
        "b2,101,600,4,b",
    ]
    cluster = "nodes:\n  - {name: n, resource: '<5>'}\n"
    sizes = []
    for separate in ("", "group"):
        plan = size.plan(
            request(tmp_path, "\n".join(rows) + "\n", cluster=cluster, separate=separate, criteria=Criteria(wait_p95=0))
        )
        sizes.append(size.size_all(plan)[0].shared.size)
    assert sizes == [1, 2]


def test_the_table_of_a_small_sizing(tmp_path: Path) -> None:
    plan = size.plan(request(tmp_path, jobs_table(20), criteria=Criteria(wait_p95=60_000_000)))
    labels, rows = rows_of(plan, size.size_all(plan))
    assert labels == ["FIFO"]
    assert [(name, *cells) for name, cells in rows if name != "simulations"] == GOLDEN


GOLDEN = [
    ("nodes", "17"),
    ("waiting time, 95th percentile", "43 s"),
    ("cores reserved", "55.4%"),
]


def test_deadlines_are_a_criterion(tmp_path: Path) -> None:
    table = "job,submit,run,cpu,deadline\n" + "".join(f"j{i},0,100,4,250\n" for i in range(12))
    plan = size.plan(request(tmp_path, table, criteria=Criteria(wait_p95=None, missed=0.0)))
    # Two after each other on every node of 4 cores.
    assert size.size_all(plan)[0].shared.size == 6
    half = size.plan(request(tmp_path, table, criteria=Criteria(wait_p95=None, missed=0.5)))
    assert size.size_all(half)[0].shared.size == 3


# --- the command -----------------------------------------------------------------------------------------------------


def cress(*arguments: object) -> Result:
    """Run the command to its end, in this process: importing it anew would be most of the time."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_a_log_of_processors_is_sized_in_processors_or_in_nodes(tmp_path: Path) -> None:
    log = write_swf(tmp_path / "log.swf", [swf_line(i, i * 10, 100, 4, 120) for i in range(30)])
    plain = cress("size", log, "--wait-p95", "1s", "--json")
    assert plain.exit_code == 0, plain.stderr
    data = json.loads(plain.stdout)
    # Ten jobs of four processors run at once.
    assert (data["unit"], data["policies"][0]["size"], data["policies"][0]["kinds"]) == (
        "processors",
        40,
        {"processors": 40},
    )
    spread = cress("size", log, "--wait-p95", "1s", "--node-resource", "<8, 32G>", "--json")
    data = json.loads(spread.stdout)
    assert (data["unit"], data["policies"][0]["size"]) == ("nodes", 5)
    assert data["policies"][0]["wait_p95_s"] <= 1
    assert {trial["size"] for trial in data["policies"][0]["trials"]} >= {4, 5, 6, 7}


def test_files_and_a_report_that_needs_no_network(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = cress("size", MIXED, "--separate", "type", "--wait-p95", "2h", "--policy", "BackFill", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "BackFill-separate/dags.csv",
        "BackFill-separate/jobs.csv",
        "BackFill-separate/summary.json",
        "BackFill-shared/dags.csv",
        "BackFill-shared/jobs.csv",
        "BackFill-shared/summary.json",
        "report.html",
        "size.json",
    ]
    data = json.loads((out / "size.json").read_text())
    (policy,) = data["policies"]
    assert set(policy["separate"]["parts"]) == {"service", "database", "batch", "dag", "cron"}
    assert policy["separate"]["size"] == sum(part["size"] for part in policy["separate"]["parts"].values())
    assert json.loads((out / "BackFill-shared" / "summary.json").read_text())["nodes"] == policy["size"]
    page = (out / "report.html").read_text()
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "@@" not in own
    assert not re.search(r"""(src|href)\s*=|@import|url\(""", own)
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    figures = json.loads(found.group(1))
    assert set(figures["more"]) == {"trials", "day"}
    assert "<td>fewer nodes than separate</td>" in own


MISTAKES = {
    "a bad duration": (["{jobs}", "--cluster", "{cluster}", "--wait-p95", "10 minuts"], "--wait-p95: "),
    "a share that is none": (
        ["{jobs}", "--cluster", "{cluster}", "--deadlines-missed", "3"],
        "--deadlines-missed: '3' is not between 0 and 1",
    ),
    "no deadlines": (
        ["{jobs}", "--cluster", "{cluster}", "--deadlines-missed", "1%"],
        "--deadlines-missed: no job has a deadline",
    ),
    "no nodes": (["{jobs}"], "give --cluster FILE"),
    "two kinds of nodes": (
        ["{jobs}", "--cluster", "{cluster}", "--node-resource", "<4>"],
        "--node-resource: cannot be combined with --cluster",
    ),
    "bad nodes": (["{jobs}", "--node-resource", "<4, 8X>"], "--node-resource: "),
    "a job that fits nowhere": (
        ["{jobs}", "--node-resource", "<2, 8G>"],
        "job j2 fits on no node, however many there are: a task asks for",
    ),
    "no such kind": (["{jobs}", "--cluster", "{cluster}", "--vary", "gpu"], "--vary: there is no kind of nodes 'gpu'"),
    "one group only": (
        ["{one}", "--cluster", "{cluster}", "--separate", "group"],
        "--separate: all jobs are of one group: default",
    ),
    "waits that no nodes mend": (
        ["{held}", "--cluster", "{cluster}", "--wait-p95", "1s"],
        "no number of nodes is enough: with",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_sentence(tmp_path: Path, name: str) -> None:
    arguments, words = MISTAKES[name]
    (tmp_path / "c.yaml").write_text(NODE)
    (tmp_path / "jobs.csv").write_text(jobs_table(8))
    (tmp_path / "one.csv").write_text("job,submit,run,cpu\na,0,10,1\n")
    # One task at a time: the others wait whatever there is.
    (tmp_path / "held.csv").write_text(
        "job,submit,run,cpu,licences\n" + "".join(f"j{i},0,100,1,solver\n" for i in range(9))
    )
    if name == "waits that no nodes mend":
        (tmp_path / "c.yaml").write_text(NODE + "licences: {solver: 1}\n")
    places = {
        "jobs": tmp_path / "jobs.csv",
        "one": tmp_path / "one.csv",
        "held": tmp_path / "held.csv",
        "cluster": tmp_path / "c.yaml",
    }
    result = cress("size", *(each.format(**places) for each in arguments))
    assert result.exit_code == 2, result.stdout
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
