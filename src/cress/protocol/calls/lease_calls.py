"""Calls that assign parts of the cluster: leases, moves of running tasks, reservations, and licences."""

from __future__ import annotations

from cress.protocol.bodies import CountBody, InsideBody, LeaseBody, RebalanceBody, ReserveBody, UseBody
from cress.protocol.calls.row import CallRow
from cress.protocol.job_views import SubmittedPage
from cress.protocol.lease_views import (
    LeasesPage,
    LicencesPage,
    PlanView,
    ReservationsPage,
    ReservationView,
    RoundView,
    WorkloadsPage,
)
from cress.protocol.queries import DryRunQuery, LeaseQuery, LeasesQuery, MovesQuery, WorkloadsQuery
from cress.protocol.rights import Action

REQUEST = CallRow(
    "POST",
    "/v1/leases",
    LeasesPage,
    body=LeaseBody,
    query=DryRunQuery,
    shown='{"workload": "dask", "count": 4, "resource": "<4, 16G>", …}',
    needs=Action.SUBMIT,
    makes=True,
    keyed=True,
    about=(
        "asks for [leases](#leases); 201 with them, once the request is stored. With `dry_run` only the notes on "
        "such a request"
    ),
)
LEASES = CallRow(
    "GET",
    "/v1/leases",
    LeasesPage,
    query=LeasesQuery,
    about=(
        "leases: those that wait, those that are held, those that the center keeps for workloads itself. With "
        "`wait` (seconds) and the `stamp` of an earlier answer, the answer comes when something has changed"
    ),
)
LEASE = CallRow(
    "GET",
    "/v1/leases/{id}",
    LeasesPage,
    query=LeaseQuery,
    about="one lease, or all of one request; none when they are over",
)
WORKLOADS = CallRow(
    "GET",
    "/v1/workloads",
    WorkloadsPage,
    query=WorkloadsQuery,
    about=(
        "what each workload holds in all: the sums over its [leases](#leases), in all and on each node, and what its "
        "tasks borrow"
    ),
)
USE = CallRow(
    "POST",
    "/v1/leases/{id}/use",
    LeasesPage,
    body=UseBody,
    shown='{"amounts": "<1, 4G>"}',
    steers=True,
    about="what the holder of a lease uses of it by itself from now on; the rest is idle",
)
SUBMIT_INSIDE = CallRow(
    "POST",
    "/v1/leases/{id}/tasks",
    SubmittedPage,
    body=InsideBody,
    shown='{"command": …, "resource": …}',
    needs=Action.SUBMIT,
    steers=True,
    makes=True,
    keyed=True,
    about="submits a batch job whose tasks run in the lease, and which ends with it; 201 with its id",
)
GROW = CallRow(
    "POST",
    "/v1/leases/{id}/grow",
    LeasesPage,
    body=CountBody,
    shown='{"count": 2}',
    needs=Action.SUBMIT,
    steers=True,
    makes=True,
    keyed=True,
    about="asks for more leases of the same kind: 201, a new request",
)
SHRINK = CallRow(
    "POST",
    "/v1/leases/{id}/shrink",
    LeasesPage,
    body=CountBody,
    shown='{"count": 2}',
    steers=True,
    again=False,
    about="gives some leases back, first those in which nothing runs",
)
RENEW = CallRow(
    "PUT",
    "/v1/leases/{id}/renew",
    LeasesPage,
    steers=True,
    about="the holder is there: the terms of its leases of that workload begin anew",
)
GIVE_BACK = CallRow(
    "DELETE",
    "/v1/leases/{id}",
    LeasesPage,
    steers=True,
    about="gives a lease back, or all of one request with those that wait",
)
PLAN_MOVES = CallRow(
    "GET",
    "/v1/rebalance",
    PlanView,
    query=MovesQuery,
    about=(
        "a plan of [moves of running tasks](rebalance.md): for a waiting job, or for the goals spread, devices and "
        "nodes (`goal=spread,nodes`); at most `moves` tasks that lose at most `lost` hours of cores and devices. "
        "Nothing moves"
    ),
)
BEGIN_MOVES = CallRow(
    "POST",
    "/v1/rebalance",
    RoundView,
    body=RebalanceBody,
    shown='{"moves": [{"attempt": 7, "to": "n2"}], "job": 12, "place": {"n1": 2}}',
    needs=Action.MOVE_TASKS,
    makes=True,
    again=False,
    about="carries out a plan as a round (201), step by step; `job` and `place` only if it makes room for a job",
)
LAST_ROUND = CallRow(
    "GET",
    "/v1/rebalance/round",
    RoundView,
    about="the round that is under way, or the last one",
)
STOP_MOVES = CallRow(
    "DELETE",
    "/v1/rebalance",
    RoundView,
    needs=Action.MOVE_TASKS,
    again=False,
    about="ends the round that is under way, after its present step",
)
RESERVATIONS = CallRow(
    "GET",
    "/v1/reservations",
    ReservationsPage,
    about=(
        "the [advance reservations](reservations.md), by their next starts: `start` and `until` of the present or "
        "next time, `next`, `nodes` (with how often each has `resource`), `state` (`active`, `coming`, `short`), "
        "the tasks of the group there (`used`) and those of others that have to stop at the start (`leaving`)"
    ),
)
RESERVE = CallRow(
    "POST",
    "/v1/reservations",
    ReservationView,
    body=ReserveBody,
    shown='{"name": "exam", "group": "b", "nodes": ["n[1-4]"], "from": "18:00", "for": "4h"}',
    needs=Action.RESERVE,
    makes=True,
    again=False,
    about=(
        "makes one (201); also `count`, `resource`, `requirement`, `until`, `every`, `at_end`, `replace` as "
        "options of `cress reserve`, `dry_run`: only says what it would be. 409 if there is no room for it"
    ),
)
UNRESERVE = CallRow(
    "DELETE",
    "/v1/reservations/{name}",
    ReservationView,
    needs=Action.RESERVE,
    again=False,
    about="removes one; what runs in it goes on",
)
LICENCES = CallRow(
    "GET",
    "/v1/licences",
    LicencesPage,
    about=(
        "the [licences](licences.md) of the cluster: for each its `name`, the `total`, the numbers `in_use` and "
        "`free`, and the numbers of jobs `having` and `waiting`; `jobs` and `waiters` are the first hundred of "
        "these, with the `number` that each has or needs"
    ),
)
