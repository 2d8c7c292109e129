"""Nodes that choose, functions, sets, patterns and the job itself in a simulation: a cluster file and a table of
jobs.
"""

from __future__ import annotations

from pathlib import Path

from tests.simulator.test_source_e import attempts

CLUSTER = """\
nodes:
  - {name: lab, resource: '<4>', accepts: Job.User in Owners, attributes: {Owners: '{ann,bob}'}}
  - {name: spot, resource: '<4>', repels: [spot]}
  - {name: 'web', count: 2, resource: '<2>', attributes: {Features: '{avx2,ssd}'}}
"""
JOBS = '''\
job,submit,run,user,cpu,requirement,tolerates
A,1s,10s,ann,4,,
B,1s,10s,eve,4,,"spot,old"
C,2s,10s,cid,1,"""avx2"" in Features && Name in (web-[2-9])",
D,3s,10s,ann,2,"if(Job.CPU > 1, startswith(Name, ""w""), True)",
E,4s,10s,eve,4,,spot
'''


def test_jobs_run_where_they_are_accepted(tmp_path: Path) -> None:
    assert [each[:3] for each in attempts(tmp_path, CLUSTER, JOBS)] == [
        ("A0", "lab", "1"),
        ("B0", "spot", "1"),
        ("C0", "web-2", "2"),
        ("D0", "web-1", "3"),
        ("E0", "spot", "11"),
    ]


FAR_AND_NEAR = """\
nodes:
  - {name: s0, resource: '<2>', attributes: {switch: s0}}
  - {name: s1, resource: '<2>', attributes: {switch: s1}}
  - {name: s2, resource: '<2>', attributes: {switch: s2}}
  - {name: s3, resource: '<2>', attributes: {switch: s3}}
distances: {switch: {s0: {s1: 4, s2: 4, s3: 1}, s1: {s2: 2}}}
"""
GANGS = """\
job,submit,run,tasks,gang,cpu,requirement
A,1s,10s,4,true,1,within(Switch) && f(x) = True
B,1s,10s,4,true,1,within(Switch) && f(x) = True
D,20s,10s,3,,1,spread(Switch)
"""


def test_a_gang_takes_the_switches_that_are_nearest_to_each_other(tmp_path: Path) -> None:
    found = attempts(tmp_path, FAR_AND_NEAR, GANGS)
    nodes: dict[str, set[str]] = {}
    for task, node, *_ in found:
        nodes.setdefault(task[0], set()).add(node)
    assert (nodes["A"], nodes["B"]) == ({"s0", "s3"}, {"s1", "s2"})
    assert len(nodes["D"]) == 3
