"""Changes of leases between two lists of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from cress.protocol.lease_views import LeaseView


def changes(known: Mapping[str, LeaseView], now: Mapping[str, LeaseView]) -> list[LeaseView]:
    """Return the leases that have changed between two lists, ended ones and those that wait again first.

    A lease that waits again has its own id and the reason of its request. A request that has started is represented by
    its leases.
    """
    # By request: the number of its leases that wait again and have not started since.
    again: Counter[int | None] = Counter({lease.job: lease.count for lease in now.values() if lease.task is None})
    again.subtract({lease.job: lease.count for lease in known.values() if lease.task is None})
    again.update(lease.job for id, lease in now.items() if lease.task is not None and id not in known)
    there, found = {lease.job for lease in now.values()}, []
    for id, before in known.items():
        if id in now or (before.task is None and before.job is not None and before.job in there):
            continue
        if before.task is not None and again[before.job] > 0:
            again[before.job] -= 1
            request = now[str(before.job)]
            found.append(msgspec.structs.replace(request, id=id, task=before.task, count=1))
        else:
            found.append(over(before))
    return found + [lease for id, lease in now.items() if id not in known or stripped(known[id]) != stripped(lease)]


def over(view: LeaseView) -> LeaseView:
    """Return the last view of an ended lease."""
    return msgspec.structs.replace(view, state="over")


def stripped(view: LeaseView) -> LeaseView:
    """Return a view without the remaining time."""
    return msgspec.structs.replace(view, expires=None)


def job_of(id: str | int) -> str:
    """Return the job of a lease."""
    return str(id).partition(".")[0]
