"""``cress simulate openb --online``: a comparison of orders of nodes on a full cluster where pods come and go.

It measures waiting times and allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from msgspec import structs

from cress.model.errors import InputError
from cress.model.option_text import parse_assignments
from cress.model.options import OFF
from cress.model.times import DAY, HOUR, SECOND
from cress.simulator.attempts import How
from cress.simulator.groups import PolicyChoice, configure, parse_policy, place
from cress.simulator.packing.command import read_lists, settings_of
from cress.simulator.packing.device_use import DeviceUse
from cress.simulator.packing.online_page import write_page
from cress.simulator.packing.stream import gpus, offered, stream
from cress.simulator.report.figures import duration
from cress.simulator.request import Plan, Request
from cress.simulator.run import simulate
from cress.simulator.seeds import seeds_of
from cress.simulator.sweep import LocalSweep, Sweep
from cress.simulator.traces.openb import GPU
from cress.simulator.workload import Workload

# Under FIFO the first pod that fits nowhere delays all others, which hides the differences between the orders.
POLICY = "BackFill"
# The warm-up, as a part of the measured days: pods come and go, nothing is measured.
WARM_UP = 0.25
# A request of at least this many thousandths is for whole GPUs.
WHOLE_GPU = 1000


@dataclass(frozen=True)
class OnlineFigures:
    """Figures of one run after the warm-up: shares of the GPUs, waits in seconds; ``whole``: of pods with whole GPUs.

    A pod that has not started when the stream ends counts as waiting until then; ``waiting`` is the number of such
    pods. ``moved`` are the pods that were stopped and began again elsewhere, ``moved_lost_gpu_h`` the GPU hours lost by
    this, which count as allocated.
    """

    seed: int
    pods: int
    rejected: int
    offered: float
    allocated: float
    unusable: float
    wait_mean_s: float
    wait_p95_s: float
    whole_wait_mean_s: float
    whole_wait_p95_s: float
    waiting: int
    moved: int
    moved_lost_gpu_h: float


def simulate_online(
    pods: Path | None, nodes: Path | None, out: Path, *, load: float, days: float, seeds: str, options: Sequence[str],
    policies: Sequence[str], tell: Callable[[str, int, int], None] | None, sweep: Sweep | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run every order with every seed, write the page into ``out`` and return the summary."""
    numbers, compared = seeds_of(seeds), settings_of(options)
    if len(policies) > 1:
        raise InputError("orders are compared under one policy", hint="--policy once", field="--policy")
    choice = parse_policy(policies[0] if policies else POLICY)
    work = read_lists(pods, nodes, numbers[0])
    begin, end = round(days * WARM_UP * DAY), round(days * (1 + WARM_UP) * DAY)
    found: dict[str, list[OnlineFigures]] = {}
    uses: dict[str, DeviceUse | None] = {}
    tasks, labels = [], []
    for seed in numbers:
        steady = configure(stream(work, seed, load, end), None, parse_assignments([]).accounting)
        for label, settings in compared:
            labels.append(f"{label}, seed {seed}")
            tasks.append((_plan(steady, settings, out), replace(choice, label=labels[-1]), seed, begin, end))
    asked = [label for _ in numbers for label, _ in compared]
    for label, (figures, use) in zip(asked, (sweep or LocalSweep(1)).results(_run, tasks, labels, tell), strict=True):
        found.setdefault(label, []).append(figures)
        uses.setdefault(label, use)
    summary = {
        "pods": str(pods),
        "nodes": str(nodes),
        "load": load,
        "days": days,
        "warm_up_days": days * WARM_UP,
        "policy": choice.label,
        "orders": [_order(label, runs) for label, runs in found.items()],
    }
    write_page(out / "report.html", summary, table(summary), work.cluster.nodes, list(uses.values()))
    return summary


def _plan(steady: Workload, settings: Sequence[str], out: Path) -> Plan:
    names, group_of = place(steady)
    options = parse_assignments(list(settings))
    if options.rebalance != OFF:
        # The list does not state which pods may begin again elsewhere.
        steady = replace(
            steady, templates=tuple(structs.replace(template, movable=True) for template in steady.templates)
        )
    return Plan(
        request=Request(trace=steady.name, out=out), workload=steady, options=options, choices=(), group_names=names,
        group_of=group_of,
    )  # fmt: skip


def _run(
    plan: Plan, choice: PolicyChoice, seed: int, begin: int, end: int, *, tell: Callable[[int, int], None]
) -> tuple[OnlineFigures, DeviceUse | None]:
    result = simulate(plan, choice, lambda _, done, whole: tell(done, whole))
    work, start = plan.workload, result.analysis.times.start
    submitted = result.run.submitted
    mine = (work.submit >= begin) & submitted
    started = np.where(start < 0, end, np.minimum(start, end))
    waits = (started - work.submit) / SECOND
    whole = waits[mine & (gpus(work) >= WHOLE_GPU)]
    use = result.run.history.devices
    attempts = result.run.attempts
    moved = (attempts.how == How.MOVED) & (attempts.end >= begin)
    lost = (attempts.end - attempts.start)[moved] * gpus(work)[attempts.job[moved]]
    allocated = result.analysis.utilisation.get(GPU)
    return OnlineFigures(
        seed=seed,
        pods=int(mine.sum()),
        rejected=int(result.run.rejected.sum()),
        offered=offered(work, begin, end),
        allocated=0.0 if allocated is None else allocated.mean(begin, end),
        unusable=0.0 if use is None else use.unusable.mean(begin, end),
        wait_mean_s=_mean(waits[mine]),
        wait_p95_s=_p95(waits[mine]),
        whole_wait_mean_s=_mean(whole),
        whole_wait_p95_s=_p95(whole),
        waiting=int((mine & (started == end)).sum()),
        moved=int(moved.sum()),
        moved_lost_gpu_h=float(lost.sum()) / WHOLE_GPU / HOUR,
    ), use


def _mean(waits: np.ndarray[Any, Any]) -> float:
    return float(waits.mean()) if len(waits) else 0.0


def _p95(waits: np.ndarray[Any, Any]) -> float:
    return float(np.percentile(waits, 95)) if len(waits) else 0.0


def _order(label: str, runs: Sequence[OnlineFigures]) -> dict[str, Any]:
    """Return the means over the seeds, and each seed's figures."""
    seeds = [asdict(run) for run in runs]
    means = {key: round(fmean(one[key] for one in seeds), 6) for key in seeds[0] if key != "seed"}
    return {"order": label, **means, "seeds": seeds}


def table(summary: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the table, the first is its head."""
    waits = ("wait mean", "p95", "whole GPUs: mean", "p95")
    keys = ("wait_mean_s", "wait_p95_s", "whole_wait_mean_s", "whole_wait_p95_s")
    moves = any(order["moved"] for order in summary["orders"])
    rows = [
        [
            "order",
            "offered %",
            "allocated %",
            "unusable %",
            *waits,
            "still waiting",
            *(["moved", "lost GPU h"] if moves else []),
        ]
    ]
    for order in summary["orders"]:
        shares = (f"{100 * order[key]:.2f}" for key in ("offered", "allocated", "unusable"))
        lost = [f"{order['moved']:,.0f}", f"{order['moved_lost_gpu_h']:,.1f}"] if moves else []
        rows.append(
            [order["order"], *shares, *(duration(order[key]) for key in keys), f"{order['waiting']:,.0f}", *lost]
        )
    return rows
