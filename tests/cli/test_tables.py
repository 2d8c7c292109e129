"""What people read: tables, facts, durations."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tty
from typing import Any

import msgspec
import pytest

from cress.cli import devices, groups, job, jobs, node_matching, nodes, resolve, status
from cress.cli.common import count, duration, job_id, pairs, task_id
from cress.cli.table_layout import chosen, fitted
from cress.cli.table_layout import text_of as text
from cress.cli.tables import Cell, TableColumn, bar, clean, hidden_line, plain
from cress.client import (
    AttemptView,
    DeviceUser,
    DeviceView,
    EstimateView,
    GroupView,
    HeldDevice,
    JobView,
    LoadView,
    MatchView,
    NodeTask,
    NodeView,
    PlaceView,
    StateView,
    TaskCounts,
    TaskView,
)
from cress.model.errors import InputError

NOW = 1_000_000.0


def job_view(id: int, name: str, state: str, tasks: TaskCounts, **more: object) -> JobView:
    values: dict[str, object] = {
        "group": "web",
        "user": "ann",
        "type": "batch",
        "priority": 0,
        "gang": False,
        "resource": {"cpu": "2", "memory": "4G"},
        "time_limit": 1800.0,
        "submitted": NOW - 200,
        "command": ("sh", "-c", "echo hi"),
        **more,
    }
    return JobView(id=id, name=name, state=state, tasks=tasks, **values)  # type: ignore[arg-type]


def texts(pairs: list[tuple[str, Cell]]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value[0] for name, value in pairs}


def test_jobs_in_a_pipe_are_plain_columns() -> None:
    rows = [
        job_view(12, "sweep", "running", TaskCounts(total=1000, waiting=990, running=8, failed=2), started=NOW - 65),
        job_view(3, "a", "waiting", TaskCounts(total=1, waiting=1), reason="no node has enough free"),
        job_view(2, "done", "succeeded", TaskCounts(total=1, succeeded=1), started=NOW - 150, ended=NOW - 145.5),
    ]
    assert plain(jobs.COLUMNS, [jobs.row(each, NOW) for each in rows]) == [
        "ID  NAME   GROUP  USER  STATE        DONE  RUNNING    AGE   TIME  REASON",
        "12  sweep  web    ann   running    2/1000        8  3m20s  1m05s",
        " 3  a      web    ann   waiting       0/1        0  3m20s      -  no node has enough free",
        " 2  done   web    ann   succeeded     1/1        0  3m20s   4.5s",
    ]


def test_tasks_show_their_last_attempt() -> None:
    lost = AttemptView(id=1, node="n1", outcome="lost", placed=NOW, started=NOW - 9, ended=NOW - 8)
    killed = AttemptView(id=2, node="n2", outcome="failed", placed=NOW, started=NOW - 9, ended=NOW - 6, code=-15)
    rows = [
        TaskView(index=0, state="waiting"),
        TaskView(index=1, state="failed", attempts=(lost, killed)),
        TaskView(index=2, state="failed", attempts=(lost,)),
    ]
    assert plain(job.TASKS, [job.task_row(each, NOW) for each in rows]) == [
        "TASK  STATE    TRIES  NODE  TIME     EXIT  ERROR",
        "   0  waiting      0  -        -        -",
        "   1  failed       2  n2    3.0s  SIGTERM",
        "   2  failed       1  n1    1.0s        ?",
    ]


def test_about_one_job() -> None:
    view = job_view(
        12, "etl", "running", TaskCounts(total=3, running=2, failed=1), gang=True, preempted=2, started=NOW - 70
    )
    facts = texts(job.about(view, NOW))
    assert facts["Tasks"] == "3: 2 running, 1 failed (all at once or none)"
    assert facts["Command"] == "sh -c 'echo hi'"
    assert facts["Resource"] == "cpu 2, memory 4G"
    assert facts["Time limit"] == "30m00s"
    assert facts["Preempted"] == "2 times"
    assert facts["Started"].endswith(", for 1m10s")


def test_nodes_have_a_column_for_each_dimension_that_is_there() -> None:
    views = [
        NodeView(name="n1", state="up", rack="r1", capacity={"cpu": "4", "gpu": "2"}, used={"cpu": "1.5"}, running=3),
        NodeView(name="n2", state="cordoned", capacity={"cpu": "4", "memory": "8G"}, reason="new disk"),
    ]
    assert plain(*nodes.table(views)) == [
        "NAME  STATE     RACK  TASKS    CPU  GPU  MEMORY  REASON",
        "n1    up        r1        3  1.5/4  0/2       -",
        "n2    cordoned  -         0    0/4    -    0/8G  new disk",
    ]


def test_ports_have_a_column_where_a_job_has_some() -> None:
    ran = AttemptView(
        id=1, node="n1", outcome="running", placed=NOW, started=NOW - 9, ports={"http": 80, "admin": 20_000}
    )
    rows = [TaskView(index=0, state="running", attempts=(ran,)), TaskView(index=1, state="waiting")]
    assert plain(*job.task_table(rows, NOW, ports=True)) == [
        "TASK  STATE    TRIES  NODE  TIME  EXIT  PORTS                ERROR",
        "   0  running      1  n1    9.0s     -  http=80 admin=20000",
        "   1  waiting      0  -        -     -  -",
    ]
    assert plain(*job.task_table(rows, NOW, ports=False))[0].split()[-2:] == ["EXIT", "ERROR"]


def test_about_a_job_with_constraints() -> None:
    view = job_view(
        12,
        "web",
        "waiting",
        TaskCounts(total=3, waiting=3),
        requirement="GCC >= 4.5 && ExclusiveDisk = True && f(x) = (Waittime > 5min)",
        rank="CPU",
        requirement_now="GCC >= 4.5 && Resource = <2, 4G> && Port = 80",
        rank_now="CPU + (ExclusiveDisk = True)",
        relaxes=NOW + 187,
        ports={"http": 80, "admin": "dynamic"},
        max_per_node=1,
        max_per_rack=2,
        application="shop",
        job_failure=False,
    )
    facts = [pair for pair in job.about(view, NOW) if pair[1]]
    assert facts[facts.index(("Application", "shop")) : facts.index(("Relaxes", "in 3m07s")) + 1] == [
        ("Application", "shop"),
        ("Ports", "http=80 admin=dynamic"),
        ("Spread", "at most 1 task on one node, at most 2 tasks on one rack"),
        ("Node lost", "its tasks do not run again"),
        ("Requirement", "GCC >= 4.5 && ExclusiveDisk = True && f(x) = (Waittime > 5min)"),
        ("Required now", "GCC >= 4.5 && Resource = <2, 4G> && Port = 80"),
        ("Rank", "CPU"),
        ("Rank now", "CPU + (ExclusiveDisk = True)"),
        ("Relaxes", "in 3m07s"),
    ]


@pytest.mark.parametrize(
    ("optimistic", "pessimistic", "text"), [(30, 600, "2m00s (30s to 10m00s)"), (120, 120, "2m00s")]
)
def test_about_a_job_with_an_estimate(optimistic: float, pessimistic: float, text: str) -> None:
    estimate = EstimateView(optimistic=optimistic, median=120, mean=200, pessimistic=pessimistic)
    view = job_view(12, "web", "waiting", TaskCounts(total=1, waiting=1), estimate=estimate)
    assert dict(job.about(view, NOW))["Expected run"] == text


def test_what_a_job_asks_now_is_told_where_it_says_something_new() -> None:
    now = {"requirement_now": "Resource = <2, 4G>", "rank": "CPU", "rank_now": "CPU"}
    told = dict(job.about(job_view(12, "web", "waiting", TaskCounts(total=1, waiting=1), **now), NOW))
    assert (told["Required now"], told["Rank"], told["Rank now"]) == ("", "CPU", "")
    told = dict(job.about(job_view(12, "web", "waiting", TaskCounts(total=1, waiting=1), **now, max_per_node=1), NOW))
    assert told["Required now"] == "Resource = <2, 4G>"


def test_about_one_node() -> None:
    task = NodeTask(job=12, task=0, attempt=7, name="web", ports={"http": 8080})
    view = NodeView(
        name="n1",
        state="up",
        rack="r1",
        address="10.0.0.1",
        capacity={"cpu": "4"},
        used={"cpu": "1.5"},
        running=2,
        attributes={"gcc": "12.2.0", "ssd": True, "speed": 2.5, "memory-total": 25276514304},
        tasks=(task,),
        ports_seen=(22, 80),
        disks=3,
        disks_free=2,
    )
    assert [pair for pair in nodes.about(view) if pair[1]] == [
        ("Node", "n1"),
        ("State", ("up", "green")),
        ("Rack", "r1"),
        ("Address", "10.0.0.1"),
        ("Tasks", "2"),
        ("cpu", "1.5 of 4 used"),
        ("Disks", "2 of 3 free"),
        ("Ports", "of tasks: 8080; of others: 22 80"),
        ("gcc", "12.2.0"),
        ("ssd", "true"),
        ("speed", "2.5"),
        ("memory-total", "25,276,514,304"),
    ]
    assert plain(nodes.TASKS, [nodes.task_row(task)]) == [
        "TASK  NAME  STARTED   PORTS",
        "12.0  web   starting  http=8080",
    ]


def user(task: int, amount: int = 1000, job: int = 12) -> DeviceUser:
    return DeviceUser(job=job, task=task, attempt=40 + task, amount=amount)


def disk(id: str, state: str, idle: str, *tasks: DeviceUser, path: str = "", **speeds: str) -> DeviceView:
    able = speeds or {"disk_read": "200M", "disk_write": "200M"}
    left = dict.fromkeys(able, idle)
    return DeviceView(
        kind="disk", id=id, path=path, state=state, bandwidth=able, idle=left, users=len(tasks), tasks=tasks
    )


def text_of(found: list[tuple[Any, list[list[Cell]], str]]) -> list[str]:
    lines = []
    for columns, rows, left in found:
        lines += ["", *plain(columns, rows), *[left] * bool(left)]
    return lines[1:]


def test_devices_of_a_node_one_by_one() -> None:
    gpu = {"kind": "gpu", "model": "V100M16"}
    many = tuple(user(i, 1, job=13) for i in range(6))
    found = devices.tables(
        [
            DeviceView(id="0", state="shared", free=540, users=1, tasks=(user(0, 460),), **gpu),  # type: ignore[arg-type]
            DeviceView(id="1", state="used", users=1, tasks=(user(1),), **gpu),  # type: ignore[arg-type]
            DeviceView(kind="fpga", id="a0", state="free", free=1000, path="/dev/fpga0"),
            disk("sda", "shared", "50M", *many, path="/data/disk1"),
            disk(
                "nvme", "exclusive", "0", user(2), path="/data/disk2", disk_read="2G", disk_write="1G", iops_read="500K"
            ),
            disk("sdb", "free", "200M"),
        ]
    )
    assert text_of(found) == [
        "DEVICE   MODEL    PATH        STATE   FREE  TASKS",
        "gpu 0    V100M16  -           shared  0.54  12.0 (0.46)",
        "gpu 1    V100M16  -           used       0  12.1",
        "fpga a0  -        /dev/fpga0  free       1  -",
        "",
        "DISK  PATH          BANDWIDTH  IDLE  STATE      TASKS",
        "sda   /data/disk1        200M   50M  shared     13.0 13.1 13.2 13.3 and 2 more",
        "nvme  /data/disk2  2G:1G:500K     0  exclusive  12.2",
        "sdb   -                  200M  200M  free       -",
    ]


def test_of_many_devices_those_are_shown_that_tasks_have_and_the_others_counted() -> None:
    busy = (40, 41, 61)
    found = devices.tables(
        [
            DeviceView(
                kind="gpu", id=str(i), state="used" if i in busy else "free", free=0 if i in busy else 1000,
                users=i in busy, tasks=(user(i),) * (i in busy),
            )
            for i in range(62)
        ]
    )  # fmt: skip
    ((_, rows, left),) = found
    assert [row[0] for row in rows] == [f"gpu {i}" for i in (*range(13), *busy)]
    assert left == "and 46 more, free (--json has all)"


def test_devices_of_tasks_stand_beside_them_where_there_are_some() -> None:
    held = (
        HeldDevice(kind="gpu", id="0", amount=1000),
        HeldDevice(kind="gpu", id="1", amount=460),
        HeldDevice(kind="disk", id="sda", amount=0),
    )
    ran = AttemptView(id=1, node="n1", outcome="running", placed=NOW, started=NOW - 9, devices=held)
    rows = [TaskView(index=0, state="running", attempts=(ran,)), TaskView(index=1, state="waiting")]
    assert plain(*job.task_table(rows, NOW, ports=False)) == [
        "TASK  STATE    TRIES  NODE  TIME  EXIT  DEVICES                            ERROR",
        "   0  running      1  n1    9.0s     -  gpu 0,1 (0.46); disk sda (shared)",
        "   1  waiting      0  -        -     -  -",
    ]
    assert plain(*job.service_table(rows[:1], NOW))[0].split()[-3:] == ["PORTS", "DEVICES", "REASON"]
    assert plain(*job.attempt_table([ran], NOW))[1].endswith("gpu 0,1 (0.46); disk sda (shared)")
    bare = [AttemptView(id=1, node="n1", outcome="lost", placed=NOW)]
    assert [column.title for column in job.attempt_table(bare, NOW)[0]] == [each.title for each in job.ATTEMPTS]
    task = NodeTask(job=12, task=0, attempt=7, name="web", devices=held[2:])
    assert plain(*nodes.task_table([task])) == [
        "TASK  NAME  STARTED   PORTS  DEVICES",
        "12.0  web   starting  -      disk sda (shared)",
    ]


BUSY = LoadView(cpu=0.954, memory=0.5, network=0.01, disk=0.71, free_memory=8 * 2**30 + 2**28)


def test_a_column_of_loads_where_anything_is_measured() -> None:
    views = [
        NodeView(name="n1", state="overloaded", load=BUSY, reason="cpu 95 % busy"),
        NodeView(name="n2", state="up", load=LoadView(cpu=0, memory=0.25, network=0, disk=0, free_memory=2**20)),
        NodeView(name="n3", state="away"),
    ]
    assert plain(*nodes.table(views)) == [
        "NAME  STATE       RACK  TASKS         LOAD  REASON",
        "n1    overloaded  -         0     cpu 95 %  cpu 95 % busy",
        "n2    up          -         0  memory 25 %",
        "n3    away        -         0            -",
    ]
    assert devices.load_cell(views[0]) == ("cpu 95 %", "red")
    assert "LOAD" not in plain(*nodes.table(views[2:]))[0]


def test_load_and_data_of_one_node() -> None:
    view = NodeView(name="n1", state="up", load=BUSY, judged=False, data=tuple(f"/d/{i:03}" for i in range(1_000)))
    told = texts(nodes.about(view))
    assert told["Load"] == (
        "cpu 95 %, memory 50 % (8.2G free), network 1 %, disk 71 %; load is ignored on this node (--no-overload)"
    )
    assert told["Data"] == "/d/000, /d/001, /d/002, /d/003, /d/004 and 995 more"
    bare = texts(nodes.about(NodeView(name="n1", state="up", data=("/d",))))
    assert (bare["Load"], bare["Data"]) == ("", "/d")


def test_nodes_that_match_come_in_the_order_of_their_score_and_the_others_say_why_not() -> None:
    def node(name: str, match: MatchView, **more: Any) -> NodeView:
        return NodeView(name=name, state="up", match=match, **more)

    good, others = node_matching.tables(
        [
            node("n1", MatchView(satisfied=True, score=0.25)),
            node("n2", MatchView(satisfied=False, clause="SSD = True", undefined=True)),
            node("n3", MatchView(satisfied=True, score=2.5), rack="r1", address="10.0.0.3", running=4),
            node("n4", MatchView(satisfied=False, clause="GCC >= 4.5")),
            node("n5", MatchView(satisfied=True, score=0.25)),
            node("n6", MatchView(satisfied=False, clause='Rack = "r1"', has={"Rack": "r3"})),
            node("n7", MatchView(satisfied=False, clause="SSD = True", undefined=True, has={"SSD": None})),
            node("n8", MatchView(satisfied=False, clause="SSD = 1", undefined=True, has={"SSD": True})),
        ]
    )
    assert plain(node_matching.NODES, good) == [
        "NAME  SCORE  STATE  RACK  ADDRESS   TASKS",
        "n3      2.5  up     r1    10.0.0.3      4",
        "n1     0.25  up     -     -             0",
        "n5     0.25  up     -     -             0",
    ]
    assert plain(node_matching.OTHERS, others) == [
        "NAME  STATE  WHY NOT",
        "n2    up     SSD = True is undefined",
        "n4    up     GCC >= 4.5",
        'n6    up     Rack = "r1" (Rack is r3)',
        "n7    up     SSD = True (no SSD)",
        "n8    up     SSD = 1 is undefined (SSD is true)",
    ]


def place(task: int, node: str = "n1", **ports: int) -> PlaceView:
    return PlaceView(
        job=12, name="web", group="default", task=task, attempt=40 + task, node=node, rack="r1", address="10.0.0.1",
        ports=ports, since=NOW,
    )  # fmt: skip


def test_where_tasks_are() -> None:
    assert plain(*resolve.table([place(0, http=8080, admin=20_000), place(10, "n2")])) == [
        " TASK  NODE  RACK  ADDRESS   PORTS",
        " 12.0  n1    r1    10.0.0.1  http=8080 admin=20000",
        "12.10  n2    r1    10.0.0.1  -",
    ]
    assert resolve.ports({"port": 80}) == "80"


def test_where_tasks_are_that_have_devices() -> None:
    held = (HeldDevice(kind="disk", id="sda", amount=1000), HeldDevice(kind="gpu", id="1", amount=1000))
    own = msgspec.structs.replace(place(0), disk="/data/disk1", devices=held)
    assert plain(*resolve.table([own, place(1)])) == [
        "TASK  NODE  RACK  ADDRESS   PORTS  DISK         DEVICES",
        "12.0  n1    r1    10.0.0.1  -      /data/disk1  gpu 1",
        "12.1  n1    r1    10.0.0.1  -      -            -",
    ]
    assert plain(*resolve.table([place(1)]))[0].split()[-1] == "PORTS"
    assert resolve.changes([], [own]) == ["+ 12.0 n1 r1 10.0.0.1 - /data/disk1"]


def test_what_changed_of_where_tasks_are() -> None:
    before = [place(0, port=80), place(1, port=80)]
    now = [place(0, port=80), place(1, "n2", port=80)]
    assert resolve.changes(before, now) == ["- 12.1 n1 r1 10.0.0.1 80", "+ 12.1 n2 r1 10.0.0.1 80"]


def test_groups_say_what_they_use_of_their_quotas() -> None:
    views = [
        GroupView(
            name="db",
            quota="2",
            used="3",
            ratio=1.5,
            policy="FIFO",
            weight=1,
            users=("ann", "bob"),
            running=3,
            waiting=0,
        ),
        GroupView(
            name="web",
            quota="4",
            used="0",
            ratio=0,
            policy="BackFill",
            weight=2,
            users=("*",),
            running=0,
            waiting=9,
            cooling=True,
            running_jobs=3,
            limits={"MaxRunningJobs": "5", "MaxTasks": "9"},
            closed=True,
        ),
    ]
    assert plain(groups.COLUMNS, [groups.row(each) for each in views]) == [
        "NAME  QUOTA  USED  USED/QUOTA  RUNNING  WAITING  POLICY                WEIGHT  USERS    LIMITS",
        "db        2     3        1.50        3        0  FIFO                       1  ann bob",
        (
            "web       4     0        0.00        0        9  BackFill (cools off)       2  *        closed, "
            "MaxRunningJobs=5 (3), MaxTasks=9"
        ),
    ]


def group_in_tree(name: str, parent: str, quota: str, used: str, ratio: float, **more: Any) -> GroupView:
    return GroupView(
        name=name,
        parent=parent,
        quota=quota,
        used=used,
        ratio=ratio,
        policy="" if more.get("inner") else "FIFO",
        weight=1,
        users=("*",),
        running=int(used),
        **{"waiting": 0, "borrowed": "0", "lends": "0", **more},
    )


def test_groups_in_a_tree() -> None:
    views = [
        group_in_tree("biology", "", "40", "50", 1.25, share_of_cluster=0.4, borrowed="10", waiting=7),
        group_in_tree("default", "", "2", "0", 0, share_of_cluster=0.02, lends="2"),
        group_in_tree(
            "lab", "physics", "40", "20", 0.5, share_of_parent=2 / 3, share_of_cluster=0.4, lends="20", max_quota="50"
        ),
        group_in_tree("physics", "", "60", "45", 0.75, share_of_cluster=0.6, lends="15", max_quota="80", inner=True),
        group_in_tree("theory", "physics", "20", "25", 1.25, share_of_parent=1 / 3, share_of_cluster=0.2, borrowed="5"),
    ]
    assert plain(groups.TREE_COLUMNS, groups.tree_rows(views, drawn=False)) == [
        (
            "NAME     IN       QUOTA  USED  USED/QUOTA  OF_PARENT  OF_CLUSTER  BORROWED  LENDS  MAX  RUNNING  "
            "WAITING  POLICY  LIMITS"
        ),
        (
            "biology              40    50        1.25                    40%        10      0            50     "
            "   7  FIFO"
        ),
        (
            "default               2     0        0.00                     2%         0      2             0     "
            "   0  FIFO"
        ),
        "physics              60    45        0.75                    60%         0     15   80       45        0",
        (
            "lab      physics     40    20        0.50        67%         40%         0     20   50       20     "
            "   0  FIFO"
        ),
        (
            "theory   physics     20    25        1.25        33%         20%         5      0            25     "
            "   0  FIFO"
        ),
    ]
    drawn = [text(each[0]) for each in groups.tree_rows(views, drawn=True)]
    assert drawn == ["biology", "default", "physics", "├─ lab", "└─ theory"]


def test_status_in_a_few_lines() -> None:
    view = StateView(
        version="1", epoch=2, started=NOW - 7200, now=NOW, nodes=3, nodes_up=2, jobs_waiting=4, jobs_running=1,
        tasks_waiting=1000, tasks_running=5, capacity={"cpu": "8"}, used={}, problem="the disk is full",
    )  # fmt: skip
    facts = texts(status.about(view, "http://x"))
    assert facts["Nodes"] == "2 of 3 up"
    assert facts["Jobs"] == "1 job running, 4 waiting"
    assert facts["Tasks"] == "5 tasks running, 1,000 waiting"
    assert facts["cpu"] == "0 of 8 used"
    assert facts["Problem"] == "the disk is full"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0s"), (0.04, "0.0s"), (4.25, "4.2s"), (10, "10s"), (59.9, "59s"), (60, "1m00s"), (3599, "59m59s"),
        (3600, "1h00m"), (86399, "23h59m"), (86400, "1d00h"), (10 * 86400 + 7200, "10d02h"),
    ],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_small_texts() -> None:
    assert (count(1, "task"), count(2000, "task")) == ("1 task", "2,000 tasks")
    assert bar(0.5) == "██████████░░░░░░░░░░ "
    assert bar(7) == "████████████████████+"
    assert clean("a\x1b[31m\nb…") == "a\\x1b[31m\\nb…"
    assert (job_id("12"), task_id("12.3"), task_id("12")) == (12, (12, 3), (12, None))
    assert pairs(["A=b=c", "D="], "--env", "KEY=VALUE") == {"A": "b=c", "D": ""}


@pytest.mark.parametrize("text", ["A", "=b", ""])
def test_pairs_without_a_key_or_a_value(text: str) -> None:
    with pytest.raises(InputError, match="is not KEY=VALUE"):
        pairs([text], "--env", "KEY=VALUE")


def on_a_terminal(code: str, **environment: str) -> str:
    """What a program writes when its standard output is a terminal of 60 columns."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    try:
        known = {
            name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}
        }
        env = {**known, "TERM": "xterm-256color", "COLUMNS": "60", **environment}
        with subprocess.Popen([sys.executable, "-c", code], stdout=theirs, env=env):
            os.close(theirs)
            text = io.BytesIO()
            # The end of a terminal is an error to the one who reads.
            try:
                while data := os.read(ours, 4096):
                    text.write(data)
            except OSError:
                pass
        return text.getvalue().decode()
    finally:
        os.close(ours)


SHOW = """
from cress.cli.tables import TableColumn, show, state
columns = [TableColumn("ID", right=True), TableColumn("STATE"), TableColumn("REASON", gives=True)]
show(columns, [["12", state("failed"), "[red]" + "very " * 30 + "long"]])
"""


def test_a_terminal_gets_colours_and_lines_that_fit() -> None:
    assert on_a_terminal(SHOW).splitlines() == [
        "\x1b[1mID\x1b[0m  \x1b[1mSTATE \x1b[0m  \x1b[1mREASON\x1b[0m",
        "12  \x1b[31mfailed\x1b[0m  [red]very very very very very very very very ve…",
    ]


NARROW = (
    TableColumn("ID"),
    TableColumn("GROUP", gives=True, hides=2),
    TableColumn("USER", hides=1),
    TableColumn("REASON", least=24, gives=True),
)


@pytest.mark.parametrize(
    ("users", "width", "head", "hidden"),
    [
        (["ann", "ann"], 80, "ID  GROUP    USER  REASON", ()),
        (["ann", "ann"], 40, "ID  GROUP    REASON", ("user",)),
        (["ann", "ann"], 30, "ID  REASON", ("group", "user")),
        (["ann", "bob"], 36, "ID  USER  REASON", ("group",)),
        (["ann", "bob"], 20, "ID  REASON", ("group", "user")),
    ],
)
def test_a_narrow_table_leaves_out_columns_first_those_that_say_the_same_everywhere(
    users: list[str], width: int, head: str, hidden: tuple[str, ...]
) -> None:
    rows = [[id, "default", user, "no node has enough free"] for id, user in zip("12", users, strict=True)]
    layout = fitted(NARROW, rows, width)
    assert plain(layout.columns, layout.rows)[0] == head
    assert layout.hidden == hidden
    assert sum(layout.widths) + 2 * (len(layout.widths) - 1) <= width


def test_tables_of_a_usual_terminal_fit_and_say_what_is_hidden() -> None:
    reason = "no node has enough free; of 120 nodes 100 lack cpu, 20 lack memory"
    name, tasks = "nightly-training-of-models", TaskCounts(total=1000, running=512)
    views = [
        job_view(123_456, name, "running", tasks, group="research"),
        job_view(123_457, name, "running", tasks, group="research", user="bob", reason=reason),
    ]
    columns, rows = jobs.table(views, NOW)
    layout = fitted(columns, rows, 80)
    assert sum(layout.widths) + 2 * (len(layout.widths) - 1) <= 80
    assert hidden_line(layout, 80) == "hidden: group, running, age, time (--wide shows all, --columns some)"
    assert hidden_line(layout, 40) == "4 columns hidden (--wide)"


def test_columns_are_chosen_by_their_names_in_any_order() -> None:
    columns, rows = chosen(
        jobs.COLUMNS, [jobs.row(job_view(3, "a", "pending", TaskCounts(total=1)), NOW)], ["user", "ID"]
    )
    assert plain(columns, rows) == ["USER  ID", "ann    3"]
    assert [each.title for each in chosen((TableColumn("IN USE"), TableColumn("")), [], ["in-use"])[0]] == ["IN USE"]
    with pytest.raises(InputError, match=r"--columns: there is no column 'stat' \(did you mean state"):
        chosen(jobs.COLUMNS, [], ["id", "stat"])


TOO_NARROW = """
from cress.cli.tables import TableColumn, Selection, show
columns = [TableColumn("ID"), TableColumn("USER", hides=1), TableColumn("STATE"), TableColumn("NODE")]
show(columns, [["12", "somebody", "x" * 30, "y" * 30]], Selection(wide=WIDE))
"""


@pytest.mark.parametrize(
    ("wide", "lines"),
    [
        (
            "False",
            [
                "ID  STATE" + 27 * " " + "NODE",
                f"12  {30 * 'x'}  {23 * 'y'}…",
                "hidden: user (--wide shows all, --columns some)",
            ],
        ),
        ("True", ["ID  USER      STATE" + 27 * " " + "NODE", f"12  somebody  {30 * 'x'}  {30 * 'y'}"]),
    ],
)
def test_lines_are_cut_rather_than_wrapped_and_wide_shows_all(wide: str, lines: list[str]) -> None:
    text = on_a_terminal(TOO_NARROW.replace("WIDE", wide), NO_COLOR="1")
    assert re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() == lines


def test_colours_can_be_turned_off() -> None:
    assert "\x1b[3" not in on_a_terminal(SHOW, NO_COLOR="1")
