"""Commands of Slurm that Cress does not have: each says which command of Cress does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cress.model.errors import InputError

INSTEAD = {
    "sattach": "`cress logs 12 --follow` shows the output of a job, `cress exec 12 -- bash` runs a shell beside it",
    "scrontab": "`type: cron` in a job file (docs/workflows.md#cron-jobs)",
    "sdiag": "`cress status`, and the numbers for Prometheus (docs/metrics.md)",
    "strigger": "`notify` in a job file (docs/notifications.md), `cress events --follow`",
    "smap": "`cress top`, or the portal (docs/portal.md)",
    "sview": "`cress top`, or the portal (docs/portal.md)",
}


def __getattr__(name: str) -> Callable[[str, Sequence[str]], int]:
    if name in INSTEAD:
        return _refused
    raise AttributeError(name)


def _refused(name: str, _words: Sequence[str]) -> int:
    raise InputError(f"{name} is not supported", hint=INSTEAD[name])
