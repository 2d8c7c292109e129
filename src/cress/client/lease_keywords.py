"""The keys of a request of leases as Python keywords (docs/api.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cress.client.job_keywords import Duration, Resource, RunKeys
from cress.client.jobs import checked, mapping_of, plain_keys


class LeaseKeys(RunKeys, total=False):
    """Further keys of a request: the placement of the leases, and the start of the program in them.

    ``retries``: how often a failed program is started again.
    """

    retries: int
    job_failure: bool
    hold: bool
    dynamic_port: bool


class AskKeys(LeaseKeys, total=False):
    """All keys of a request except ``resource`` and ``workload``."""

    count: int
    command: str | Sequence[str]
    group: str
    name: str
    gang: bool
    min_time: Duration
    term: Duration
    uses: str | Resource


_ALL = frozenset({*AskKeys.__annotations__, *LeaseKeys.__annotations__, "resource", "workload"})


def body_of(keys: Mapping[str, object]) -> dict[str, object]:
    """Return the body of a request from keywords, without those that are ``None``.

    Programs start in the current directory. Raises ``InputError``.
    """
    given = checked("a lease", keys, _ALL)
    return mapping_of(given) if "command" in given else plain_keys(given)
