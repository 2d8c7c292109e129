"""Packing: the recipe, its bound, and what the command prints."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.simulator.packing.arrivals import arrivals
from cress.simulator.packing.bound import ModelRoom, Pod, most_allocated
from cress.simulator.packing.command import read_lists
from cress.simulator.packing.patterns import most_by_patterns
from tests.examples import examples
from tests.simulator.test_cli import cress

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,65536,2,T4\nn2,16000,65536,4,A10\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,2000,1024,1,1000\nb,1000,1024,1,470\nc,1000,1024,1,810\nd,2000,1024,0,0\n"  # noqa: E501


def best_placement(pods: list[Pod], nodes: list[tuple[str, int, int, int]]) -> int:
    """The most that any placement allocates, by trying all: each pod on each node or nowhere, and there each part on
    each GPU.
    """
    most = 0
    for places in product(range(-1, len(nodes)), repeat=len(pods)):
        left = [[cpu, memory] for _, cpu, memory, _ in nodes]
        asked: list[list[int]] = [[] for _ in nodes]
        given, fits = 0, True
        for pod, f in zip(pods, places, strict=True):
            if f < 0:
                continue
            left[f] = [have - need for have, need in zip(left[f], (pod.cpu, pod.memory), strict=True)]
            asked[f] += [1000] * (pod.gpu // 1000) + [pod.gpu % 1000] * (pod.gpu % 1000 > 0)
            fits = fits and min(left[f]) >= 0 and nodes[f][0] in pod.models
            given += pod.gpu
        if (
            given > most
            and fits
            and all(fit(parts, [1000] * (node[3] // 1000)) for parts, node in zip(asked, nodes, strict=True))
        ):
            most = given
    return most


def fit(parts: list[int], free: list[int]) -> bool:
    """Whether all parts find a GPU, by trying all."""
    if not parts:
        return True
    first, *rest = sorted(parts, reverse=True)
    return any(fit(rest, [*free[:d], left - first, *free[d + 1 :]]) for d, left in enumerate(free) if left >= first)


MODELS = ("A", "B", "C")


@examples(14)
@given(
    st.lists(
        st.builds(
            Pod, st.integers(0, 9), st.integers(0, 4), st.sampled_from([0, 300, 500, 600, 1000, 2000]),
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
    rooms: dict[str, ModelRoom] = {}
    for model, *amounts in nodes:
        before = rooms.get(model, ModelRoom(0, 0, 0))
        rooms[model] = ModelRoom(*(a + b for a, b in zip(before, amounts, strict=True)))
    assert best_placement(pods, nodes) <= most_allocated(Counter(pods), rooms)


@pytest.mark.parametrize(
    ("pods", "bound"),
    [
        pytest.param({(1, 0, 1000, "AB"): 9}, 3000, id="no more than all GPUs"),
        pytest.param({(1, 0, 1000, "A"): 9}, 1000, id="nor than those of the models that are asked for"),
        pytest.param({(1, 0, 1000, "A"): 9, (1, 0, 500, "AB"): 1}, 1500, id="beside what the others ask for"),
        pytest.param({(8, 0, 1000, "AB"): 9}, 1500, id="nor than the cores allow, one pod in part"),
        pytest.param({(0, 0, 0, "AB"): 9}, 0, id="without GPUs nothing"),
        pytest.param({(0, 0, 700, "AB"): 9}, 2100, id="nor than one part on each GPU where two are too much"),
        pytest.param({(0, 0, 700, "AB"): 9, (0, 0, 300, "AB"): 1}, 2400, id="with what fills one up"),
        pytest.param({(0, 0, 400, "A"): 9, (0, 0, 200, "AB"): 1}, 1000, id="also of some models"),
    ],
)
def test_the_bound(pods: dict[tuple[int, int, int, str], int], bound: int) -> None:
    rooms = {"A": ModelRoom(4, 9, 1000), "B": ModelRoom(8, 9, 2000)}
    assert most_allocated({Pod(*pod[:3], frozenset(pod[3])): n for pod, n in pods.items()}, rooms) == bound


@examples(10)
@given(
    st.dictionaries(st.sampled_from([110, 160, 190, 240, 470, 810, 1000]), st.integers(1, 40), min_size=1),
    st.integers(1, 20),
)
def test_prices_prove_what_patterns_can_hold(parts: dict[int, int], devices: int) -> None:
    """First fit of the largest first places no more than the bound; the bound is no more than all GPUs or all parts."""
    free, placed = [1000] * devices, 0
    for size in sorted((size for size, number in parts.items() for _ in range(number)), reverse=True):
        d = next((d for d, left in enumerate(free) if left >= size), None)
        if d is not None:
            free[d] -= size
            placed += size
    bound = most_by_patterns(parts, devices)
    assert placed <= bound <= min(1000 * devices, sum(size * number for size, number in parts.items()))
    # What all of one size may not exceed holds for all sizes together with what the others ask for.
    for size, number in parts.items():
        alone = min(number, 1000 // size * devices) * size
        assert bound <= alone + sum(other * n for other, n in parts.items() if other != size)


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


@pytest.mark.parametrize(("share", "least", "most"), [(0.1, 600, 1600), (0.3, 1800, 2800), (1.3, 7800, 8800)])
def test_pods_arrive_until_they_ask_for_the_share_also_if_the_list_asks_for_more(
    tmp_path: Path, share: float, least: int, most: int
) -> None:
    """The list asks for 2,280 thousandths of 6 GPUs, which is 38 %: a part of it, or some pods again."""
    files(tmp_path)
    work = read_lists(tmp_path / "pods.csv", tmp_path / "nodes.csv", 1)
    asks = {"a": 1000, "b": 470, "c": 810, "d": 0}
    for seed in range(20):
        order = [work.ids[i] for i in arrivals(work, seed, share)]
        arrived = sum(asks[pod] for pod in order)
        assert least <= arrived < most
        # No pod more than is needed.
        assert arrived - asks[order[-1]] < least
        assert len(set(order[:4])) == len(order[:4])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--seeds", "9..3"], "--seeds"),
        (["--seeds", "x"], "--seeds"),
        (["--option", "node_order=best"], "best"),
        (["--arrive", "0"], "--arrive"),
        (["--policy", "FIFO"], "--policy: does not apply to the trace openb (nothing waits there"),
        (["--cluster", "nodes.csv"], "--cluster: does not apply to the trace openb (--nodes FILE)"),
        (["--check"], "--check: does not apply to the trace openb"),
    ],
)
def test_bad_input_gets_one_error(tmp_path: Path, more: list[str], said: str) -> None:
    result = cress(*files(tmp_path), *more, "--out", tmp_path / "out")
    assert result.returncode == 2
    assert said in result.stderr
    assert not (tmp_path / "out").exists()
