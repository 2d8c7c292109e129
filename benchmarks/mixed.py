"""Mixed load: separate clusters against a shared one beside the figures of source E, what depends on what, and the plot
of docs/mixed.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from benchmarks.line_plot import Panel, line_plot
from benchmarks.result import Result
from cress.simulator.request import Request
from cress.simulator.sizing import size
from cress.simulator.sizing.criteria import Criteria, peak_of
from cress.simulator.sizing.request import GROUP, Comparison, SizeRequest

# Source E, §4.1: mean utilisation at peak before and after, and the nodes that were saved.
BEFORE, AFTER, FEWER = 62.0, 75.0, 17.0
POLICY = "FIFO"
# What a day brings is drawn. The parameters were chosen with seed 1, which draws the plot; these seeds chose nothing.
CHOSE, SEEDS = 1, tuple(range(11, 23))
# Two departments, each with a cluster for its services and one for its batch work, before they share; services use 80 %
# of what they reserve.
DEPARTMENTS = "groups=2,service_use=0.8"
SEEDS_OF_DEPARTMENTS = SEEDS[:8]
# What is changed: parameters, policy, seed, and the wait that is allowed.
MINUTE = 60 * 1_000_000
WAIT = 10 * MINUTE
VARIATIONS = (
    ("nodes=20", POLICY, 1, WAIT),
    ("nodes=20", POLICY, 1, 30 * MINUTE),
    ("nodes=20", "BackFill", 1, WAIT),
    ("nodes=10", POLICY, 1, WAIT),
    ("nodes=10", "BackFill", 1, WAIT),
    ("surge=1.3,tasks=4,run=500,office=0.1", POLICY, 1, WAIT),
    ("groups=2,surge=1.3,tasks=4,office=0.1,nightly=0.3", POLICY, 1, WAIT),
    ("groups=2,surge=1.3,tasks=6,run=1200,office=0.2,nightly=0.4", POLICY, 1, WAIT),
)
PLOT = Path("build/mixed.svg")
HOURS = range(24)


def compared(parameters: str, policy: str, seed: int, wait: int) -> Comparison:
    """Size both under one policy."""
    request = SizeRequest(
        run=Request(trace=f"mixed:{parameters}", out=Path("build/mixed"), policies=(policy,), seed=seed),
        criteria=Criteria(wait_p95=wait),
        separate=GROUP,
    )
    plan = size.plan(request)
    return size.compare(plan, plan.plan.choices[0])


def figures(found: Comparison) -> tuple[float, float, float, float, float]:
    """Return percents: used at peak on separate clusters and on the shared one, reserved at peak likewise, and fewer
    nodes.
    """
    assert found.separate is not None
    apart, shared = peak_of(found.separate), peak_of(found.shared.result)
    pairs = [100 * each[f"{word}_peak_mean"] for word in ("used", "reserved") for each in (apart, shared)]
    return pairs[0], pairs[1], pairs[2], pairs[3], 100 * found.fewer


def lines(name: str, found: Comparison, *, goals: bool) -> Iterator[Result]:
    """Yield the figures of one comparison."""
    used_apart, used, reserved_apart, reserved, fewer = figures(found)
    sizes = f"{found.separate_size} and {found.shared.size} nodes"
    yield Result(f"{name}: used at peak, separate", used_apart, "%", note=f"reserved {reserved_apart:.1f} %")
    yield Result(
        f"{name}: used at peak, shared",
        used,
        "%",
        AFTER if goals else None,
        at_least=True,
        note=f"reserved {reserved:.1f} %",
    )
    yield Result(f"{name}: fewer nodes", fewer, "%", FEWER if goals else None, at_least=True, note=sizes)


def results() -> Iterator[Result]:
    """Yield the comparisons with each seed, the variations, and draw the plot."""
    yield Result("source E: used at peak, before", BEFORE, "%")
    yield Result("source E: used at peak, after", AFTER, "%")
    yield Result("source E: fewer nodes", FEWER, "%")
    chose = compared("", POLICY, CHOSE, WAIT)
    yield from lines(f"defaults, {POLICY}, seed {CHOSE}", chose, goals=True)
    _draw(chose)
    for parameters, seeds in (("", SEEDS), (DEPARTMENTS, SEEDS_OF_DEPARTMENTS)):
        label = f"{parameters or 'defaults'}, {POLICY}"
        found = [compared(parameters, POLICY, seed, WAIT) for seed in seeds]
        for seed, each in zip(seeds, found, strict=True):
            yield from lines(f"{label}, seed {seed}", each, goals=True)
        saved, used = [figures(each)[-1] for each in found], [figures(each)[1] for each in found]
        yield Result(
            f"{label}: used at peak, shared, mean of the seeds",
            fmean(used),
            "%",
            AFTER,
            at_least=True,
            note=f"{min(used):.1f} to {max(used):.1f}",
        )
        yield Result(
            f"{label}: fewer nodes, mean of the seeds",
            fmean(saved),
            "%",
            FEWER,
            at_least=True,
            note=f"{min(saved):.1f} to {max(saved):.1f}",
        )
    for parameters, policy, seed, wait in VARIATIONS:
        name = f"{parameters or 'defaults'}, {policy}, seed {seed}, {wait // MINUTE} min"
        yield from lines(name, compared(parameters, policy, seed, wait), goals=False)


def _draw(found: Comparison) -> None:
    """Draw the hours of the day on both."""
    assert found.separate is not None
    panels = []
    for title, result in (
        (f"separate, {found.separate_size} nodes", found.separate),
        (f"shared, {found.shared.size} nodes", found.shared.result),
    ):
        day = result.analysis.day
        assert day is not None
        cores = {"reserved": day.reserved, "used": day.used, "wanted by services": day.wanted}
        panels.append(Panel(title, HOURS, {name: (100 * values).tolist() for name, values in cores.items()}))
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(line_plot(panels, x="hour of day", y="cores (%)"))
    print(f"written: {PLOT}")
