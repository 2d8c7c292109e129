"""Packing: the recipe, its bound, and what the command prints."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cress.simulator.packing.bound import Pod, Room, most_allocated
from tests.simulator.test_cli import cress

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,65536,2,T4\nn2,16000,65536,4,A10\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,2000,1024,1,1000\nb,1000,1024,1,470\nc,1000,1024,1,810\nd,2000,1024,0,0\n"


def best_placement(pods: list[Pod], nodes: list[tuple[str, int, int, int]]) -> int:
    """The most that any placement allocates, by trying all: each pod on each node or nowhere, GPUs as one amount."""
    most = 0
    for places in product(range(-1, len(nodes)), repeat=len(pods)):
        left = [[cpu, memory, gpu] for _, cpu, memory, gpu in nodes]
        given, fits = 0, True
        for pod, f in zip(pods, places, strict=True):
            if f < 0:
                continue
            left[f] = [have - need for have, need in zip(left[f], (pod.cpu, pod.memory, pod.gpu), strict=True)]
            fits = fits and min(left[f]) >= 0 and nodes[f][0] in pod.models
            given += pod.gpu
        if fits:
            most = max(most, given)
    return most


MODELS = ("A", "B", "C")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            Pod, st.integers(0, 9), st.integers(0, 4), st.sampled_from([0, 300, 500, 1000, 2000]),
            st.frozensets(st.sampled_from(MODELS), min_size=1),
        ),
        max_size=5,
    ),
    st.lists(
        st.tuples(st.sampled_from(MODELS), st.integers(0, 12), st.integers(0, 8), st.sampled_from([0, 1000, 2000])),
        min_size=1,
        max_size=3,
    ),
)  # fmt: skip
def test_no_placement_exceeds_the_bound(pods: list[Pod], nodes: list[tuple[str, int, int, int]]) -> None:
    rooms: dict[str, Room] = {}
    for model, *amounts in nodes:
        before = rooms.get(model, Room(0, 0, 0))
        rooms[model] = Room(*(a + b for a, b in zip(before, amounts, strict=True)))
    assert best_placement(pods, nodes) <= most_allocated(Counter(pods), rooms)


@pytest.mark.parametrize(
    ("pods", "bound"),
    [
        pytest.param({(1, 0, 1000, "AB"): 9}, 3000, id="no more than all GPUs"),
        pytest.param({(1, 0, 1000, "A"): 9}, 1000, id="nor than those of the models that are asked for"),
        pytest.param({(1, 0, 1000, "A"): 9, (1, 0, 500, "AB"): 1}, 1500, id="beside what the others ask for"),
        pytest.param({(8, 0, 1000, "AB"): 9}, 1500, id="nor than the cores allow, one pod in part"),
        pytest.param({(0, 0, 0, "AB"): 9}, 0, id="without GPUs nothing"),
    ],
)
def test_the_bound(pods: dict[tuple[int, int, int, str], int], bound: int) -> None:
    rooms = {"A": Room(4, 9, 1000), "B": Room(8, 9, 2000)}
    assert most_allocated({Pod(*pod[:3], frozenset(pod[3])): n for pod, n in pods.items()}, rooms) == bound


def files(folder: Path) -> list[object]:
    (folder / "nodes.csv").write_text(NODES)
    (folder / "pods.csv").write_text(PODS)
    return ["simulate", "openb", "--pods", folder / "pods.csv", "--nodes", folder / "nodes.csv"]


def test_the_orders_are_compared_over_seeds(tmp_path: Path) -> None:
    result = cress(
        *files(tmp_path), "--seeds", "1..2", "--option", "node_order=first", "--option", "node_order=fragmentation",
        "--json", "--out", tmp_path / "out",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert [each["order"] for each in summary["orders"]] == ["node_order=first", "node_order=fragmentation"]
    for each in summary["orders"]:
        assert each["seeds"] == [1, 2]
        assert each["min"] <= each["mean"] <= each["max"] <= each["bound"] <= 100
        assert each["curves"][0]["arrived"][-1] >= 130
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<svg" in page
    assert "node_order=fragmentation" in page
    again = cress(*files(tmp_path), "--seeds", "1..2", "--option", "node_order=first", "--out", tmp_path / "out2")
    assert "node_order=first" in again.stdout
    assert "bound" in again.stdout


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--seeds", "9..3"], "--seeds"),
        (["--seeds", "x"], "--seeds"),
        (["--option", "node_order=best"], "best"),
        (["--arrive", "0"], "--arrive"),
        (["--policy", "FIFO"], "openb takes no --policy (nothing waits there"),
        (["--cluster", "nodes.csv"], "openb takes no --cluster (--nodes FILE)"),
        (["--check"], "openb takes no --check"),
    ],
)
def test_bad_input_gets_one_error(tmp_path: Path, more: list[str], said: str) -> None:
    result = cress(*files(tmp_path), *more, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert said in result.stderr
    assert not (tmp_path / "out").exists()
