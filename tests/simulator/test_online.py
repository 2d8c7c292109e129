"""A steady stream of pods: what it offers, and orders compared on it by the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cress.model.times import DAY, HOUR
from cress.simulator.clusterfile import load_cluster
from cress.simulator.packing.command import settings_of
from cress.simulator.packing.online import simulate_online
from cress.simulator.packing.stream import gpus, offered, stream
from cress.simulator.traces import load_workload
from cress.simulator.workload import Workload
from tests.simulator.test_cli import cress

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},64000,262144,8,T4\n" for i in range(25))
# Nine short pods, and one that runs for a hundred days and asks for nearly all GPU time.
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n" + "".join(
    f"p{i},1000,1024,1,{470 if i % 2 else 1000},0,{8_640_000 if i == 0 else 3600},0\n" for i in range(10)
)


def lists(folder: Path, pods: str = PODS, nodes: str = NODES) -> list[object]:
    """Write the lists and return the arguments of the command."""
    (folder / "nodes.csv").write_text(nodes)
    (folder / "pods.csv").write_text(pods)
    return ["simulate", "openb", "--pods", folder / "pods.csv", "--nodes", folder / "nodes.csv", "--online"]


@pytest.fixture
def work(tmp_path: Path) -> Workload:
    lists(tmp_path)
    return load_workload(str(tmp_path / "pods.csv"), load_cluster(tmp_path / "nodes.csv"), 1)


def test_the_stream_asks_for_its_load_from_the_first_hour_to_the_last(work: Workload) -> None:
    span = 2 * DAY
    pods = stream(work, 7, 0.9, span)
    for begin in range(0, span, 12 * HOUR):
        assert offered(pods, begin, begin + 12 * HOUR) == pytest.approx(0.9, abs=0.03)
    assert (np.diff(pods.submit) >= 0).all()
    assert (pods.submit + pods.run <= span).all()
    # The pod of a hundred days has nearly all of what runs at the beginning.
    first = pods.submit == 0
    long = np.array([name == "p0" for name in pods.ids])
    assert gpus(pods)[first & long].sum() > 0.98 * gpus(pods)[first].sum()


def test_a_seed_repeats_its_stream(work: Workload) -> None:
    once, again, other = (stream(work, seed, 0.9, DAY) for seed in (7, 7, 8))
    assert once.submit.tolist() == again.submit.tolist()
    assert once.submit.tolist() != other.submit.tolist()


def test_nobody_waits_where_there_is_room(tmp_path: Path) -> None:
    lists(tmp_path)
    summary = simulate_online(
        tmp_path / "pods.csv", tmp_path / "nodes.csv", tmp_path / "out", load=0.5, days=0.5, seeds="1",
        options=["node_order=first"], policies=[], tell=None,
    )  # fmt: skip
    (free,) = summary["orders"]
    assert free["wait_mean_s"] == free["whole_wait_p95_s"] == free["waiting"] == 0
    assert free["allocated"] == pytest.approx(free["offered"], abs=1e-6)
    assert free["allocated"] == pytest.approx(0.5, abs=0.02)


def test_pods_wait_when_they_ask_for_more_than_there_is(tmp_path: Path) -> None:
    orders = ("--option", "node_order=first", "--option", "node_order=fragmentation")
    result = cress(
        *lists(tmp_path), "1.2", "--days", "0.5", "--seeds", "1,2", *orders, "--json", "--out", tmp_path / "out"
    )
    assert result.returncode == 0, result.stderr
    for full in json.loads(result.stdout)["orders"]:
        assert full["offered"] == pytest.approx(1.2, abs=0.05)
        assert full["allocated"] <= 1
        assert full["wait_mean_s"] > 0
        assert full["waiting"] > 0
        assert [each["seed"] for each in full["seeds"]] == [1, 2]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Measured: 0.5 d after 0.125 d of warm-up." in page
    assert page.count("the last submission") == 2


def test_an_option_with_several_values_is_compared_and_moves_are_counted(tmp_path: Path) -> None:
    moves = ("--option", "rebalance=off", "--option", "rebalance=10min", "--option", "rebalance_lost=100")
    result = cress(
        *lists(tmp_path), "0.9", "--days", "0.5", "--seeds", "1", *moves, "--json", "--out", tmp_path / "out"
    )
    assert result.returncode == 0, result.stderr
    without, moving = json.loads(result.stdout)["orders"]
    assert [without["order"], moving["order"]] == [
        f"rebalance={each}, node_order=fragmentation" for each in ("off", "10min")
    ]
    assert (without["moved"], without["moved_lost_gpu_h"]) == (0, 0)
    assert moving["moved"] > 0
    assert 0 < moving["moved_lost_gpu_h"] <= moving["moved"] * 0.625 * 24
    assert "lost GPU h" in (tmp_path / "out" / "report.html").read_text()


def test_options_are_settings_one_for_each_of_several_values() -> None:
    assert settings_of(["mix_tasks=9"]) == [("node_order=fragmentation", ["mix_tasks=9", "node_order=fragmentation"])]
    given = ["node_order=first", "mix_tasks=8", "node_order=balance", "mix_tasks=9", "gate_hold=5s", "gate_hold=5s"]
    assert [label for label, _ in settings_of(given)] == [
        "node_order=first, mix_tasks=8",
        "node_order=first, mix_tasks=9",
        "node_order=balance, mix_tasks=8",
        "node_order=balance, mix_tasks=9",
    ]
    assert settings_of(given)[0][1] == ["gate_hold=5s", "node_order=first", "mix_tasks=8"]


@pytest.mark.parametrize(
    ("pods", "more", "said"),
    [
        pytest.param(PODS, ["0.9", "--policy", "FIFO", "--policy", "BackFill"], "one policy", id="two policies"),
        pytest.param(PODS, ["0"], "--online", id="no load"),
        pytest.param(PODS, ["0.9", "--days", "0"], "--days", id="no days"),
        pytest.param(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,1000\n", ["0.9"], "creation_time", id="no times"
        ),
    ],
)
def test_bad_input_gets_one_error(tmp_path: Path, pods: str, more: list[str], said: str) -> None:
    result = cress(*lists(tmp_path, pods), *more, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert said in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("--online", "0.9"), ("--seeds", "zzz"), ("--pods", "x"), ("--nodes", "x"), ("--arrive", "1.1"), ("--days", "1")],
)
def test_other_traces_take_no_options_of_this_one(tmp_path: Path, name: str, value: str) -> None:
    result = cress("simulate", "generated:jobs=5", name, value, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert f"cress simulate: {name}: " in result.stderr
    assert not (tmp_path / "out").exists()


def test_days_are_of_a_stream_and_arrivals_of_none(tmp_path: Path) -> None:
    assert "--arrive: cannot be combined with --online" in cress(*lists(tmp_path), "0.9", "--arrive", "1.1").stderr
    assert "--days: has no effect without --online" in cress(*lists(tmp_path)[:-1], "--days", "1").stderr
