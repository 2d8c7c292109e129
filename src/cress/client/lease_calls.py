"""Calls about leases."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from cress.client.calls import Call
from cress.protocol.leaseviews import LeasesPage
from cress.protocol.views import SubmittedPage


def request(body: Mapping[str, object], key: str = "", *, dry_run: bool = False) -> Call[LeasesPage]:
    """Ask for leases; with its ``Idempotency-Key`` the same request is taken once, however often it is sent."""
    query = {"dry_run": "true"} if dry_run else {}
    return Call(LeasesPage, "POST", "/v1/leases", query, body=body, headers=_key(key))


def leases(
    workload: str = "", group: str = "", *, after: int | None = None, stamp: str = "", wait: float = 0.0
) -> Call[LeasesPage]:
    """List leases; with ``wait`` the answer comes when their ``stamp`` is another one."""
    query: dict[str, object] = {"workload": workload, "group": group, "after": after, **_waiting(stamp, wait)}
    return Call(LeasesPage, "GET", "/v1/leases", query, wait=wait)


def lease(id: str, *, stamp: str = "", wait: float = 0.0) -> Call[LeasesPage]:
    """Ask for one lease, or all of one request."""
    return Call(LeasesPage, "GET", f"/v1/leases/{id}", _waiting(stamp, wait), wait=wait)


def use(id: str, amounts: str | Mapping[str, object]) -> Call[LeasesPage]:
    """Say what the holder of a lease uses by itself."""
    return Call(LeasesPage, "POST", f"/v1/leases/{id}/use", body={"amounts": amounts})


def submit(id: str, job: Mapping[str, object], key: str = "") -> Call[SubmittedPage]:
    """Submit a job that runs in a lease."""
    return Call(SubmittedPage, "POST", f"/v1/leases/{id}/tasks", body=job, headers=_key(key))


def grow(id: str, count: int, key: str = "") -> Call[LeasesPage]:
    """Ask for more leases of the same kind."""
    return Call(LeasesPage, "POST", f"/v1/leases/{id}/grow", body={"count": count}, headers=_key(key))


def shrink(id: str, count: int) -> Call[LeasesPage]:
    """Release some leases of one request."""
    return Call(LeasesPage, "POST", f"/v1/leases/{id}/shrink", body={"count": count}, again=False)


def release(id: str) -> Call[LeasesPage]:
    """Give a lease back, or all of one request."""
    return Call(LeasesPage, "DELETE", f"/v1/leases/{id}")


def renew(id: str) -> Call[LeasesPage]:
    """Begin the terms of the leases of a workload anew."""
    return Call(LeasesPage, "PUT", f"/v1/leases/{id}/renew", body={})


def _waiting(stamp: str, wait: float) -> dict[str, object]:
    return {"stamp": stamp, "wait": f"{wait:g}"} if wait else {}


def _key(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key or secrets.token_hex(16)}
