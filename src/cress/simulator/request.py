"""Structs of a simulation: the request, the prepared run, and the result of one policy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cress.model.options import Options
from cress.simulator.event_orders import TOGETHER
from cress.simulator.groups import PolicyChoice
from cress.simulator.measures import Analysis, MeasuredRun
from cress.simulator.trace_notes import TraceNotes
from cress.simulator.workload import Ints, Workload

if TYPE_CHECKING:
    from cress.past.recorded_log import LogSpan
    from cress.simulator.forecasts import Foretelling

REQUESTED, EXACT, PREDICTED = "requested", "exact", "predicted"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of a simulation, as given.

    ``span`` is the part of an event log to simulate; ``None``: all of it.
    """

    trace: str
    out: Path
    cluster: Path | None = None
    groups: Path | None = None
    policies: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    events: str = TOGETHER
    estimates: str = REQUESTED
    deadlines: str = ""
    load: float | None = None
    frameworks: int = 0
    compare: str = ""
    seed: int = 1
    check: bool = False
    attempts: bool = False
    forecasts: int = 0
    span: LogSpan | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The workload with its groups, the options, and the policies to run; nothing has run yet."""

    request: Request
    workload: Workload
    options: Options
    choices: tuple[PolicyChoice, ...]
    group_names: tuple[str, ...]
    group_of: Ints


@dataclass(frozen=True, kw_only=True)
class Result:
    """The run of one policy, with its measures and notes, and the directory of its files."""

    run: MeasuredRun
    analysis: Analysis
    notes: TraceNotes
    directory: Path
    foretelling: Foretelling | None = None
