"""Prints the table of figures and writes ``build/bench.json``; arguments choose among the parts: see ``PARTS``."""

from __future__ import annotations

import json
import platform
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    answers,
    bottleneck,
    bulk,
    centers,
    constraints,
    containers,
    core,
    deadlines,
    disks,
    executors,
    families,
    forecasts,
    fragments,
    generated,
    groups,
    growth,
    hostile,
    lag,
    live,
    look_alikes,
    matching,
    mixed,
    moving,
    openb,
    policies,
    portal,
    preemption,
    python,
    reconcile,
    records,
    replay_day,
    restarts,
    shared_store,
    simulator,
    snapshots,
    starts,
    urgency,
    virtual_executors,
)
from benchmarks.result import Result

PARTS: dict[str, Callable[[], Iterator[Result]]] = {
    "core": core.results,
    "answers": answers.results,
    "forecasts": forecasts.results,
    "matching": matching.results,
    "constraints": constraints.results,
    "urgency": urgency.results,
    "policies": policies.results,
    "families": families.results,
    "live": live.results,
    "starts": starts.results,
    "containers": containers.results,
    "python": python.results,
    "reconcile": reconcile.results,
    "records": records.results,
    "replay": replay_day.results,
    "simulator": simulator.results,
    "generated": generated.results,
    "bottleneck": bottleneck.results,
    "openb": openb.results,
    "look-alikes": look_alikes.results,
    "deadlines": deadlines.results,
    "fragments": fragments.results,
    "groups": groups.results,
    "growth": growth.results,
    "preemption": preemption.results,
    "mixed": mixed.results,
    "moving": moving.results,
    "disks": disks.results,
    "snapshots": snapshots.results,
    "restarts": restarts.results,
    "lag": lag.results,
    "hostile": hostile.results,
    "centers": centers.results,
    "shared-store": shared_store.results,
    "executors": executors.results,
    "virtual-executors": virtual_executors.results,
    "bulk": bulk.results,
    "portal": portal.results,
}

TARGET = Path("build/bench.json")


def line(result: Result) -> str:
    """One line of the table."""
    goal = "" if result.goal is None else f"{'≥' if result.at_least else '≤'} {result.goal:,.6g}"
    verdict = {None: "", True: "met", False: "MISSED"}[result.met]
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}×"
    return (
        f"{result.name:<58} {result.value:>14,.6g} {result.unit:<13} {goal:>11} {verdict:<6} {ratio:>7}  {result.note}"
    )


def main() -> None:
    """Measure and report."""
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}: one of {', '.join(PARTS)}")
    measured, failed = [], []
    for name in wanted:
        try:
            for result in PARTS[name]():
                print(line(result).rstrip(), flush=True)
                measured.append(result.as_dict())
        except Exception:  # noqa: BLE001 - the other parts are measured all the same
            traceback.print_exc()
            failed.append(name)
        # After each part: the whole takes an hour, and may be cut off.
        _write(measured)
    print(f"written: {TARGET}")
    if failed:
        sys.exit(f"not measured completely, because of an error: {', '.join(failed)}")


def _write(measured: list[dict[str, object]]) -> None:
    """Write what was measured so far, with the machine."""
    TARGET.parent.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    TARGET.write_text(json.dumps({"machine": machine, "results": measured}, indent=2) + "\n")


if __name__ == "__main__":
    main()
