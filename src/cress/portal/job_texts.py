"""Jobs as texts for job files, to be changed and submitted again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from cress.protocol.job_views import JobView

# Fields of a job that are keys of a job file with the same value, in the order of such a file.
KEYS = (
    "priority",
    "gang",
    "environment",
    "secrets",
    "directory",
    "requirement",
    "rank",
    "retries",
    "ports",
    "max_running",
    "max_per_node",
    "max_per_rack",
    "licences",
    "labels",
    "workload",
)
HEAD = "# Job {id} as the center shows it. Add what the center does not show, such as image, files or probes.\n"


def job_file_of(job: JobView, change: Mapping[str, str]) -> str:
    """Return a job file for a batch job, with a change as in ``Remedy``: keys, or dimensions of its resource."""
    written: dict[str, Any] = {"name": job.name or f"job-{job.id}", "command": list(job.command), "group": job.group}
    if job.tasks.total > 1:
        written["tasks"] = job.tasks.total
    written["resource"] = {name: _plain(amount) for name, amount in job.resource.items()}
    if job.time_limit:
        written["time_limit"] = f"{job.time_limit:g}s"
    for key in KEYS:
        value = getattr(job, key)
        if value:
            written[key] = value
    for key, value in change.items():
        if key in job.resource:
            written["resource"][key] = _plain(value)
        elif value:
            written[key] = _plain(value)
        else:
            written.pop(key, None)
    text: str = yaml.safe_dump(written, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return HEAD.format(id=job.id) + text


def _plain(text: str) -> str | int:
    """Return whole numbers as numbers, as people write them."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
