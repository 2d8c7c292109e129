"""Constraints, ports and names with real programs: ``cress up`` with labels and racks, everything by the command
line.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator

import pytest

from tests.center.namenode import Namenode
from tests.system.cluster import Cluster, wait_until

WAITS = """
command: "true"
requirement: zone = "eu" && Rack = "r9" && f(x) = (Waittime > 1h)
rank: CPU
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Cluster]:
    """A cluster of two nodes: node1 on rack r1, node2 on rack r2, both with the labels zone and ssd."""
    cluster = Cluster()
    try:
        process = cluster.start(
            "up", "--port", "0", "--executors", "2", "--node-resource", "<2, 2G>", "--racks", "r1,r2",
            "--label", "zone=eu", "--label", "ssd=true", log="up.log",
        )  # fmt: skip
        wait_until(lambda: "Cress is up" in cluster.log("up.log") or process.poll() is not None, "cress up")
        assert process.poll() is None, cluster.log("up.log")
        yield cluster
    finally:
        cluster.center = process
        cluster.stop()


def submitted(cluster: Cluster, text: str) -> int:
    """The id of the job of this file."""
    cluster.file("job.yaml", text)
    done = cluster.cress("submit", "job.yaml", "--json")
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["jobs"][0]["id"])


def ran_on(cluster: Cluster, job: int) -> str:
    """The node of the job's only task, once it has succeeded."""
    with cluster.client() as client:
        view = client.job(job, wait=60)
        assert view.state == "succeeded", view.reason
        return client.task(job, 0).attempts[-1].node


def test_tasks_are_spread_and_jobs_keep_away_from_each_other(home: Cluster) -> None:
    web = submitted(
        home,
        (
            "name: web\ncommand: sleep 60\ntasks: 2\nresource: <0.1, 10M>\nlabels: {tier: web}\nspread: {by: "
            "rack, most_skew: 1}\n"
        ),
    )
    with home.client() as client:
        wait_until(lambda: client.job(web).tasks.running == 2, "both tasks")
        assert {client.task(web, i).attempts[-1].node for i in range(2)} == {"node1", "node2"}
        away = submitted(
            home, 'name: db\ncommand: "true"\nresource: <0.1, 10M>\naway_from: {jobs: tier=web, by: rack}\n'
        )
        wait_until(lambda: "tasks of tier=web run in Rack r1, r2" in client.job(away).reason, "the reason")
        assert home.cress("cancel", str(web)).returncode == 0
    assert ran_on(home, away) in {"node1", "node2"}


def test_a_node_takes_the_jobs_that_the_operator_lets_it_accept(home: Cluster) -> None:
    text = 'command: "true"\nresource: <0.1, 10M>\nrequirement: Name = "node1"\n'
    done = home.cress("nodes", "set", "node1", 'accepts=Job.Labels.tier = "db"')
    assert done.returncode == 0, done.stderr
    try:
        waits = submitted(home, text + "hold: true\nlabels: {tier: db}\n")
        refused = home.cress("submit", str(home.file("other.yaml", text)))
        assert refused.returncode == 3
        assert 'the condition of node1: Job.Labels.tier = "db"' in refused.stderr
        assert home.cress("release", str(waits)).returncode == 0
        assert ran_on(home, waits) == "node1"
    finally:
        assert home.cress("nodes", "set", "node1", "accepts-").returncode == 0
    assert ran_on(home, submitted(home, text)) == "node1"


def test_a_requirement_is_held_and_a_rank_followed(home: Cluster) -> None:
    required = submitted(home, 'command: "true"\nrequirement: zone = "eu" && Rack = "r2"\n')
    ranked = submitted(home, 'command: "true"\nrequirement: SSD = True\nrank: 2 × (Rack = "r2") + CPU\n')
    assert (ran_on(home, required), ran_on(home, ranked)) == ("node2", "node2")
    run = home.cress("run", "--require", 'Rack = "r1"', "--require", "OSKernel > 1", "--", "printenv", "CRESS_JOB_ID")
    assert (run.returncode, run.stderr) == (0, "")
    assert ran_on(home, int(run.stdout)) == "node1"


def test_what_relaxes_after_a_while_starts_then(home: Cluster) -> None:
    job = submitted(home, 'command: "true"\nrequirement: Rack = "r9" && f(x) = (Waittime > 2s)\n')
    assert ran_on(home, job) in ("node1", "node2")
    with home.client() as client:
        view = client.job(job)
    assert view.started is not None
    assert view.started - view.submitted >= 2


def test_a_job_that_waits_says_for_which_clause_and_until_when(home: Cluster) -> None:
    job = submitted(home, WAITS)
    shown = wait_until(lambda: text if "Relaxes" in (text := home.cress("job", job).stdout) else "", "the clause")
    facts = {name.strip(): value.strip() for name, _, value in (line.partition("  ") for line in shown.splitlines())}
    # In the last hour of a day the moment is tomorrow's, and is shown with its date.
    moment = r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d"
    reason = rf'no node satisfies Rack = "r9" \(2 of 2 nodes do not\); Rack = "r9" turns soft at {moment}'
    assert re.fullmatch(reason, facts["Reason"])
    assert facts["Requirement"] == 'zone = "eu" && Rack = "r9" && f(x) = (Waittime > 1h)'
    assert facts["Required now"] == 'zone = "eu" && Rack = "r9" && Resource = <1,512M>'
    assert facts["Rank"] == "CPU"
    assert "Rank now" not in facts
    assert facts["Relaxes"].startswith("in 59m")
    assert home.cress("cancel", job).returncode == 0


def test_a_name_is_there_while_its_task_runs_and_gone_after(home: Cluster) -> None:
    nobody = home.cress("resolve", "web")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert nobody.stderr == "nothing called web runs\n"
    with home.running("resolve", "web", "--watch") as watching:
        job = submitted(
            home,
            "name: web\nports: {http: dynamic}\nrequirement: Rack = \"r2\"\n"
            'command: exec python3 -m http.server "$CRESS_PORT_http" --bind 127.0.0.1\n',
        )  # fmt: skip
        assert watching.stdout is not None
        come = watching.stdout.readline().split()
        assert come[:4] == ["+", f"{job}.0", "node2", "r2"]
        places = json.loads(home.cress("resolve", "web", "--json").stdout)["places"]
        (place,) = places
        port = place["ports"]["http"]
        assert 20_000 <= port <= 32_767
        assert come[5] == f"http={port}"
        assert (place["job"], place["rack"], place["group"]) == (job, "r2", "default")

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        wait_until(answers, "the server at the address that its name has")
        table = home.cress("resolve", "web", "--group", "default").stdout.splitlines()
        assert table[0].split() == ["TASK", "NODE", "RACK", "ADDRESS", "PORTS"]
        assert table[1].split()[-1] == f"http={port}"
        node = home.cress("nodes", "node2").stdout
        assert f"of tasks: {port}" in node
        assert f"{job}.0" in node
        assert home.cress("cancel", job).returncode == 0
        gone = watching.stdout.readline().split()
        assert gone[:3] == ["-", f"{job}.0", "node2"]
    assert home.cress("resolve", "web").returncode == 1
    done = home.cress("job", job).stdout
    assert f"http={port}" in done


def test_expressions_are_tried_out_on_the_live_cluster(home: Cluster) -> None:
    done = home.cress("nodes", "--where", 'zone = "eu" && Rack = "r2"', "--rank", "CPU")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["NAME", "SCORE", "STATE", "RACK", "ADDRESS", "TASKS"]
    assert lines[1].split()[:4] == ["node2", "1", "up", "r2"]
    assert lines[3].split() == ["NAME", "STATE", "WHY", "NOT"]
    assert lines[4].split(maxsplit=2) == ["node1", "up", 'Rack = "r2" (Rack is r1)']
    none = home.cress("nodes", "--where", "Color = 1")
    assert none.stdout.startswith("no node satisfies it\n")
    assert none.stdout.count("Color = 1 (no Color)") == 2
    assert none.stderr == "note: no node has an attribute Color\n"
    everything = home.cress("nodes", "node1").stdout
    for name in ("zone", "ssd", "OSKernel", "Address", "Rack"):
        assert any(line.lower().startswith(name.lower()) for line in everything.splitlines()), everything


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["submit", "typo.yaml"], "cress submit: typo.yaml:2: requirement: at character 6, "),
        (["run", "--require", "GCC >> 4.5", "--", "true"], "cress run: --require: at character 6, "),
        (["run", "--rank", "CPU +", "--", "true"], "cress run: --rank: at the end: "),
        (["run", "--port", "http=99999", "--", "true"], "cress run: --port http: '99999' is not a port (1 to 65535"),
        (["nodes", "--where", "GCC >> 4.5"], "cress nodes: --where: at character 6, "),
        (["nodes", "--rank", "CPU +"], "cress nodes: --rank: at the end: "),
        (["nodes", "node1", "--where", "SSD = True"], "cress nodes: NAME: NAME cannot be combined with --where or"),
    ],
)
def test_a_typo_is_one_clear_sentence_and_nothing_is_submitted(home: Cluster, arguments: list[str], told: str) -> None:
    home.file("typo.yaml", "command: 'true'\nrequirement: GCC >> 4.5\n")
    with home.client() as client:
        before = client.jobs(limit=1).jobs
        done = home.cress(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(told)
        assert len(done.stderr.splitlines()) == 1
        assert [job.id for job in client.jobs(limit=1).jobs] == [job.id for job in before]


def test_what_can_never_be_satisfied_is_not_accepted(home: Cluster) -> None:
    done = home.cress("run", "--require", 'zone = "us"', "--", "true")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith('cress run: --require: no node that is large enough could ever satisfy zone = "us"')


def test_names_that_mean_nothing_are_told_when_a_job_is_submitted(home: Cluster) -> None:
    done = home.cress("run", "--rank", "CPPU", "--", "echo", "ran")
    note = "no node has an attribute CPPU, did you mean CPU?"
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", f"cress run: note: {note}\n")
    file = home.file("bare.yaml", "name: bare\ncommand: 'true'\nRequirement: zone = us\n")
    refused = home.cress("submit", file)
    assert refused.returncode == 3
    assert refused.stderr.startswith(f"cress submit: {file}:3: requirement: no node that is large enough could ever")
    assert refused.stderr.endswith('zone = us (no node has an attribute us, a text must be in quotes: "us")\n')
    file = home.file("soft.yaml", "name: soft\ncommand: 'true'\nrank: CPPU\n")
    accepted = home.cress("submit", file)
    assert accepted.stdout.endswith(f" (soft) submitted; {note}\n")


def test_watching_a_name_goes_on_over_a_restart_of_the_center(own: Cluster) -> None:
    with own.running("resolve", "web", "--watch") as watching:
        job = submitted(own, "name: web\ncommand: exec sleep 1000\n")
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[:3] == ["+", f"{job}.0", "n1"]
        own.kill_center()
        own.start_center()
        assert wait_until(lambda: own.cress("cancel", job).returncode == 0, "the cancel")
        # The task was there before and after: only its end is news.
        assert watching.stdout.readline().split()[:3] == ["-", f"{job}.0", "n1"]


def test_a_job_runs_where_its_data_is(home: Cluster) -> None:
    with Namenode({"/logs/a": [(100, ("node2", "elsewhere"))]}) as namenode:
        url = f"webhdfs://127.0.0.1:{namenode.port}/logs"
        assert ran_on(home, submitted(home, f'command: "true"\ndata_locality: {url}\n')) == "node2"
