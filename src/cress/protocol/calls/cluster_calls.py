"""Calls about groups, the configuration, nodes, names, events, and centers."""

from __future__ import annotations

from typing import Any

from cress.protocol.bodies import (
    ConfigBody,
    CordonBody,
    DrainBody,
    GroupBody,
    GroupsBody,
    NodeSettingsBody,
    WhatIfBody,
)
from cress.protocol.calls.row import CallRow
from cress.protocol.centers import CentersPage, HandedOver, HistoryRowsView
from cress.protocol.cluster_views import (
    Applied,
    ConfiguredView,
    ConfigView,
    EfficiencyPage,
    EventView,
    GroupsPage,
    HistoryView,
    NodeAttemptsPage,
    NodeSettingsPage,
    NodesPage,
    NodeView,
    PastUsePage,
    PlacesChange,
    PlacesPage,
    RevisionView,
    StateView,
    UsagePage,
)
from cress.protocol.job_views import GroupExplanationView, NodeExplanationView
from cress.protocol.queries import (
    AttemptsQuery,
    DryRunQuery,
    EfficiencyQuery,
    EventsQuery,
    HistoryRowsQuery,
    NodesQuery,
    PastUseQuery,
    PlacesQuery,
    PlacesStreamQuery,
    UsageQuery,
)
from cress.protocol.rights import Action
from cress.protocol.trial_views import ConsequencesView

GROUPS = CallRow(
    "GET",
    "/v1/groups",
    GroupsPage,
    about=(
        "groups with the `quota` of now, use and order, and `text`, which can be applied again. `timetable` and "
        "`until` (when the quota changes next) are given if the quota depends on the time, in the time `zone`. "
        "`priority` is an exact decimal of any size, as text. `kinds` are the kinds of nodes that some quota names "
        "and that the group has or is guaranteed any of, such as `gpu(A100)`, each with `quota`, `used` and "
        "`max_quota`"
    ),
)
APPLY_GROUPS = CallRow(
    "PUT",
    "/v1/groups",
    Applied,
    body=GroupsBody,
    query=DryRunQuery,
    shown='{"text": …, "file": …, "moves": {…}}',
    needs=Action.CHANGE_GROUPS,
    about=(
        "replaces the groups by those of the text; the answer lists the changes. `moves` names the new group for "
        "the jobs of each removed group"
    ),
)
SET_GROUP = CallRow(
    "POST",
    "/v1/groups/{name}",
    Applied,
    body=GroupBody,
    query=DryRunQuery,
    shown='{"values": {"MaxJobs": "100", "Submit": null}}',
    steers=True,
    about=(
        "sets keywords of one group as in `Group.conf`, null: it is not given any more; the answer lists the "
        "changes. Administrators of the group may change its limits and `Submit`"
    ),
)
EXPLAIN_GROUP = CallRow(
    "GET",
    "/v1/groups/{name}/explanation",
    GroupExplanationView,
    about=(
        "why the group does not get more: what it `uses` of its quota, and the `reasons`: bounds, cooling-off, quota, "
        "and what its waiting jobs wait for"
    ),
)
CONFIG = CallRow(
    "GET",
    "/v1/config",
    ConfigView,
    about=(
        "the [configuration](configuration.md#the-configuration-of-the-cluster): `text`, its `revision` (`at`, "
        "`by`, `what`), all `options` and `licences`"
    ),
)
CHANGE_CONFIG = CallRow(
    "PUT",
    "/v1/config",
    ConfiguredView,
    body=ConfigBody,
    query=DryRunQuery,
    shown='{"text": …, "revision": 7, "what": …, "moves": {…}}',
    needs=Action.CHANGE_CONFIG,
    about=(
        "makes a document the configuration, all or nothing; instead of `text`, `options` and `licences` change "
        'single values (`{"options": {"grace": "30s"}}`, `null`: the default). With `revision` it is refused (409) '
        "unless that is the present one; `what` is told in the history. The answer has the `revision` now, and the "
        "documents `before` and after (`text`)"
    ),
)
CONFIG_HISTORY = CallRow(
    "GET",
    "/v1/config/history",
    HistoryView,
    about="the revisions that are kept, newest first",
)
CONFIG_REVISION = CallRow(
    "GET",
    "/v1/config/history/{number}",
    RevisionView,
    about="one revision, with its `text`",
)
WHAT_IF = CallRow(
    "POST",
    "/v1/what-if",
    ConsequencesView,
    body=WhatIfBody,
    shown='{"jobs": [{…}], "remove_nodes": ["n1"], "add_nodes": ["10x<16, 64G>"], "options": {"preemption": "off"}}',
    needs=Action.SUBMIT,
    about=(
        "what a change would do ([plan.md](plan.md)): a copy of the cluster runs forward in virtual time with it and "
        "without it, until the jobs that wait now have ended. `before` and `after` are the two courses, `shifts` the "
        "waiting jobs that start at another time, `stopped` the tasks that are stopped, `jobs` the start, end and "
        "nodes of the jobs of the change. Nothing is stored"
    ),
)
CENTERS = CallRow(
    "GET",
    "/v1/centers",
    CentersPage,
    about=(
        "the centers that share the store: of each its `address`, whether it `leads`, whether it is the one that "
        "answers (`here`); `age`: by how many seconds that one may be behind"
    ),
)
HAND_OVER = CallRow(
    "POST",
    "/v1/centers/hand-over",
    HandedOver,
    needs=Action.HAND_OVER,
    about=(
        "another center leads from here on, and this one stands by; answers with the address of the `leader`. 409 "
        "if none stands by ([store](store.md#centers-that-stand-by))"
    ),
)
HISTORY_ROWS = CallRow(
    "GET",
    "/v1/centers/history",
    HistoryRowsView,
    query=HistoryRowsQuery,
    needs=Action.COPY_HISTORY,
    about=(
        "finished work in the history of the center that answers, for other centers: without `block`, how many jobs "
        "and attempts each thousand of ids has; with it, these rows (encoded), and `next` for `after` of the next page"
    ),
)
NODES = CallRow(
    "GET",
    "/v1/nodes",
    NodesPage,
    query=NodesQuery,
    about=(
        "nodes with their capacity, use and measured [load](load.md); `state` is `up`, `overloaded`, "
        "`cordoned`, `draining` (tasks still run there), `drained` or `away`; `next` of a page is "
        "`after` of the following one. With `where`, a requirement, or `rank` ([the "
        "language](constraints.md)) each has a `match`: whether it is `satisfied`, the first `clause` that is not, "
        "the values that the node `has` for that clause, the `score`, and how the `rank` is calculated there; "
        "`notes` list unknown names in these texts"
    ),
)
NODE = CallRow(
    "GET",
    "/v1/nodes/{name}",
    NodeView,
    about=(
        "one node, also with its running `tasks`, their ports and devices, its [`devices`](#devices-and-load) one "
        "by one, its paths of [`data`](data.md), the foreign ports in `ports_seen`, the missing limits in "
        "`unlimited`, as [sentences](containers.md#limits), and in `strangers` the processes that "
        "[hide their attempt](executor.md#processes-that-hide)"
    ),
)
EXPLAIN_NODE = CallRow(
    "GET",
    "/v1/nodes/{name}/explanation",
    NodeExplanationView,
    about=(
        "why the node is empty or not fuller: its `tasks`, what is `free`, and the `reasons`: closed, kept free for a "
        "job or a reservation, or why the waiting jobs are not there"
    ),
)
NODE_ATTEMPTS = CallRow(
    "GET",
    "/v1/attempts",
    NodeAttemptsPage,
    query=AttemptsQuery,
    about=(
        "attempts on `nodes` (names separated by commas) that ran between `since` and `until`, past and running ones "
        "of jobs that the caller may see, the latest ends first. The default is the last hour; `more`: there were more "
        "than `limit`"
    ),
)
CORDON = CallRow(
    "POST",
    "/v1/nodes/{name}/cordon",
    NodeView,
    body=CordonBody,
    shown='{"reason": …}',
    needs=Action.STEER_NODES,
    about="keeps new tasks off a node",
)
UNCORDON = CallRow(
    "POST",
    "/v1/nodes/{name}/uncordon",
    NodeView,
    body=CordonBody,
    needs=Action.STEER_NODES,
    about="lets tasks start on a node again",
)
DRAIN = CallRow(
    "POST",
    "/v1/nodes/{name}/drain",
    NodeView,
    body=DrainBody,
    shown='{"deadline": SECONDS, "reason": …}',
    needs=Action.STEER_NODES,
    about=(
        "cordons a node; tasks that still run there at the deadline are stopped and run elsewhere. Without a deadline "
        "they run to their end. `node.drained` is the event when the node is empty"
    ),
)
FORGET = CallRow(
    "POST",
    "/v1/nodes/{name}/forget",
    NodeView,
    needs=Action.STEER_NODES,
    about=(
        "declares the node dead: its tasks run elsewhere, whatever `on_partition` of their jobs, and the node "
        "leaves the list until its executor joins again. Refused while it is connected"
    ),
)
NODE_SETTINGS = CallRow(
    "GET",
    "/v1/nodes/{name}/settings",
    NodeSettingsPage,
    about=(
        "what is [set of the node in the center](executor.md#settings-from-the-center) (`settings`), what its "
        "executor reports instead (`reported`), and the `revisions` that are kept, newest first. `GET "
        "/v1/nodes/{name}` has the first two, if something is set"
    ),
)
SET_NODE = CallRow(
    "POST",
    "/v1/nodes/{name}/settings",
    NodeSettingsPage,
    body=NodeSettingsBody,
    shown=(
        '{"labels": {"zone": "eu", "old": null}, "rack": "r7", "reserve": "<2, 8G>", "judged": false, "note": …, '
        r'"accepts": "Job.Group = \"lab\"", "repels": ["gpu"]}'
    ),
    needs=Action.STEER_NODES,
    about=(
        'changes what is named, at once; `null`: what the executor reports. `{"revert": 3}`: what was set at that '
        "revision, 0: nothing. With `revision` it is refused (409) unless that is the present one"
    ),
)
RESOLVE = CallRow(
    "GET",
    "/v1/names/{name}",
    PlacesPage,
    query=PlacesQuery,
    about="the places of the running tasks of the jobs of that name: node, rack, address, ports, disk, devices",
)
WATCH_NAME = CallRow(
    "GET",
    "/v1/names/{name}/watch",
    PlacesChange,
    query=PlacesStreamQuery,
    streams=True,
    about="these places as a stream of changes: see [below](#names)",
)
USAGE = CallRow(
    "GET",
    "/v1/usage",
    UsagePage,
    query=UsageQuery,
    about=(
        "the usage of groups, by `hour` or `day` (UTC): [history.md](history.md). `next` of a page is `since` of "
        "the following one"
    ),
)
PAST_USE = CallRow(
    "GET",
    "/v1/use",
    PastUsePage,
    query=PastUseQuery,
    about=(
        "the use of the cluster and its groups over the past `hour`, `day` or `week`, as curves with a point for each "
        "`step` (15 s, 5 min, 30 min), the first at `begin`: `use` is used / capacity by dimension, `groups` use / "
        "quota by group (500 at most), `tasks` the numbers of running and waiting tasks. `null`: not known, since the "
        "center was down or the group did not exist"
    ),
)
EFFICIENCY = CallRow(
    "GET",
    "/v1/efficiency",
    EfficiencyPage,
    query=EfficiencyQuery,
    about=(
        "what finished jobs asked for and used, by `name`, `user`, `group` or `label:NAME`: "
        "[history.md](history.md#efficiency). The default is the last 30 days; the first 1,000 rows are given"
    ),
)
EVENTS = CallRow(
    "GET",
    "/v1/events",
    EventView,
    query=EventsQuery,
    streams=True,
    about="events as they happen, as server-sent events: see [below](#events)",
)
STATE = CallRow(
    "GET",
    "/v1/state",
    StateView,
    about=(
        "the cluster in a few numbers; a service, cron job or dag counts as one job; `problem` is the reason if "
        "nothing can be stored; `delay` is the longest time of the last hour, if above 50 ms, for which the center "
        "answered nobody: its end `at`, its `length` in seconds, and `what` ran"
    ),
)
HEALTH = CallRow(
    "GET",
    "/v1/health",
    dict[str, Any],
    open=True,
    about="whether the center answers",
)
