"""Views of what finished work asked for, and what it used."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cress.model.resources import Dimensions, Measure
from cress.model.times import SECOND
from cress.model.units import describe_amount
from cress.protocol.cluster_views import EfficiencyView
from cress.store.work_done import WorkDone

# Rows of one answer.
MOST_ROWS = 1_000
# A hint needs this many attempts, of this many seconds on average.
LEAST_ATTEMPTS, LEAST_RUN = 3, 1.0
# A request is too large from this many times what would do; what would do is the use and a quarter more.
TOO_LARGE, SPARE = 2, 1.25
# Steps in which hints tell memory (bytes) below and above a GiB, and processors (millicores).
SMALL_STEP, LARGE_STEP, CPU_STEP = 64 * 2**20, 512 * 2**20, 100

_THOUSANDTHS = 1000


def efficiency_views(work: Iterable[WorkDone], by: str, dimensions: Dimensions) -> list[EfficiencyView]:
    """Return work added up by ``name`` (with its user and group), ``user``, ``group`` or ``label``, the most wasteful
    first.
    """
    parts: dict[tuple[str, str, str, str], list[WorkDone]] = {}
    for part in work:
        key = {
            "name": (part.name, part.user, part.group, ""),
            "user": ("", part.user, "", ""),
            "group": ("", "", part.group, ""),
            "label": ("", "", "", part.label),
        }
        parts.setdefault(key[by], []).append(part)
    views = [_view(key, found, dimensions, hints=by == "name") for key, found in parts.items()]
    views.sort(key=lambda view: (view.cpu_seconds - view.held["cpu"], view.name, view.user, view.group, view.label))
    return views[:MOST_ROWS]


def _view(
    key: tuple[str, str, str, str], parts: list[WorkDone], dimensions: Dimensions, *, hints: bool
) -> EfficiencyView:
    held = dict.fromkeys(dimensions.names, 0.0)
    for part in parts:
        # Work that is older than a declared dimension has no amount of it.
        for name, amount in zip(dimensions.names, part.request, strict=False):
            unit = _THOUSANDTHS if dimensions.measure(name) is Measure.MILLI else 1
            held[name] += amount / unit * part.run / SECOND
    memory = dimensions.index["memory"]
    view = EfficiencyView(
        name=key[0],
        user=key[1],
        group=key[2],
        label=key[3],
        jobs=sum(part.jobs for part in parts),
        attempts=sum(part.attempts for part in parts),
        run_seconds=sum(part.run for part in parts) / SECOND,
        held={name: amount for name, amount in held.items() if amount or name in ("cpu", "memory")},
        cpu_seconds=sum(part.cpu for part in parts) / SECOND,
        memory_asked=max(part.request[memory] for part in parts),
        memory_peak=max(part.peak for part in parts),
    )
    return _with_hint(view, dimensions) if hints else view


def _with_hint(view: EfficiencyView, dimensions: Dimensions) -> EfficiencyView:
    runs = f"{view.attempts:,} runs"
    told: list[str] = []
    if view.attempts < LEAST_ATTEMPTS or view.run_seconds < LEAST_RUN * view.attempts:
        return view
    enough = _up(view.memory_peak * SPARE, LARGE_STEP if view.memory_peak > 2**30 else SMALL_STEP)
    if view.memory_peak and view.memory_asked >= TOO_LARGE * enough:
        asked, peak, small = (
            describe_amount(_up(amount, 2**20), "memory", dimensions)
            for amount in (view.memory_asked, view.memory_peak, enough)
        )
        told.append(f"asks for {asked} of memory, used {peak} at most in {runs}: {small} would do")
    asked_cores, used_cores = view.held["cpu"] / view.run_seconds, view.cpu_seconds / view.run_seconds
    enough = _up(used_cores * SPARE * _THOUSANDTHS, CPU_STEP)
    if asked_cores * _THOUSANDTHS >= TOO_LARGE * enough:
        small = describe_amount(enough, "cpu", dimensions)
        told.append(f"asks for {asked_cores:.4g} cores, used {used_cores:.2g} on average in {runs}: {small} would do")
    elif asked_cores and used_cores >= TOO_LARGE * asked_cores:
        used = f"used {used_cores:.2g} on average in {runs}"
        told.append(f"asks for {asked_cores:.4g} cores, {used}: it should ask for more")
    return msgspec.structs.replace(view, hint="; ".join(told))


def _up(amount: float, step: int) -> int:
    """Return the smallest positive multiple of a step that is not below an amount."""
    return max(1, -int(-amount // step)) * step
