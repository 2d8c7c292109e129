"""Other options for a scheduler that has begun."""

from __future__ import annotations

from dataclasses import asdict

from cress.core.scheduler import Scheduler
from cress.model.options import Options


def configured(core: Scheduler, options: Options) -> Scheduler:
    """Return a scheduler that goes on from where one is, with other options."""
    state = core.export()
    state["options"] = asdict(options)
    return Scheduler.restore(state, core.groups.zone)
