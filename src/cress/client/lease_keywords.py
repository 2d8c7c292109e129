"""The keys of a request of leases as keywords of Python (docs/api.md)."""

from __future__ import annotations

from cress.client.job_keywords import RunKeys


class LeaseKeys(RunKeys, total=False):
    """Further keys of a request: how the leases are placed, and how the program that runs in them is started.

    ``retries``: how often a program that failed is started again.
    """

    retries: int
    job_failure: bool
    hold: bool
    dynamic_port: bool
