"""Quotas per kind of node on real nodes: a file, the command line, and a task that gives a device back
(docs/groups.md).
"""

from __future__ import annotations

import json

from cress.client import Client
from tests.system.cluster import Cluster, wait_until

GROUPS = """\
Name: vision
ResourceQuota: <4,gpu(A100)=1,gpu(T4)=1>

Name: batch
ResourceQuota: <4,gpu(T4)=1>
MaxQuota: <8,gpu(T4)=1>
SchedPolicy: BackFill
"""


def _submit(client: Client, name: str, group: str, model: str, tasks: int = 1) -> int:
    body = {
        "name": name, "group": group, "command": ["sleep", "600"], "resource": "<0.1, 50M, gpu=1>", "tasks": tasks,
        "requirement": f'GPUModel = "{model}"',
    }  # fmt: skip
    return client.submit([body]).jobs[0].id


def test_a_group_gets_the_devices_back_that_it_is_guaranteed(bare: Cluster) -> None:
    options = ("accounting=dominant", "grace=0s", "max_per_round=1", "cooling=1s", "cooling_above_quota=1s")
    bare.start_center("--dimension", "gpu", *(word for each in options for word in ("--option", each)))
    for name, model in (("n1", "A100"), ("n2", "T4")):
        file = bare.file(f"{model}.yaml", f"devices:\n  gpu: {{count: 2, model: {model}}}\n")
        bare.start_executor(name, "<4, 4G>", "--devices", str(file))
    client = bare.client()
    wait_until(lambda: len(client.nodes()) == 2, "both nodes")

    wrong = bare.file("wrong.conf", GROUPS.replace("A100", "A10O"))
    refused = bare.cress("groups", "apply", wrong)
    assert refused.returncode == 2
    assert (
        "wrong.conf:2: ResourceQuota: group vision has a quota of gpu(A10O), and no node with gpu is of the kind A10O "
        "(did you mean A100?)" in refused.stderr
    )
    applied = bare.cress("groups", "apply", bare.file("Group.conf", GROUPS))
    assert "    ResourceQuota: <4,gpu(A100)=1,gpu(T4)=1>\n" in applied.stdout, applied.stderr

    borrowed = _submit(client, "borrowed", "batch", "A100", 2)
    wait_until(lambda: client.job(borrowed).tasks.running == 2, "two borrowed devices")
    bounded = _submit(client, "bounded", "batch", "T4", 2)
    wait_until(lambda: client.job(bounded).tasks.running == 1, "one T4")
    told = bare.cress("job", bounded).stdout
    assert "group batch is at its MaxQuota of 1 gpu(T4): 1 gpu(T4) used, job " in told

    back = _submit(client, "back", "vision", "A100")
    wait_until(lambda: client.job(back).tasks.running == 1, "the device that is guaranteed")
    wait_until(lambda: client.job(borrowed).tasks.running == 1, "one borrowed device")
    more = _submit(client, "more", "vision", "A100")
    wait_until(lambda: "group vision has 1 of its 1 gpu(A100)" in bare.cress("job", more).stdout, "the reason")
    assert client.job(borrowed).tasks.running == 1, "nothing is taken beyond the quota"

    views = {each["name"]: each for each in json.loads(bare.cress("groups", "--json").stdout)["groups"]}
    assert views["vision"]["kinds"]["gpu(A100)"] == {"used": "1", "quota": "1", "max_quota": ""}
    assert views["batch"]["kinds"] == {
        "gpu(A100)": {"used": "1", "quota": "0", "max_quota": ""},
        "gpu(T4)": {"used": "1", "quota": "1", "max_quota": "1"},
    }
    assert views["batch"]["borrowed"] == "<gpu(A100)=1>"
    shown = bare.cress("groups", "show").stdout
    assert "UsedResource: <0.1,gpu(A100)=1>\n" in shown
    assert bare.cress("groups", "apply", "-", "--dry-run", stdin=shown).stdout == "nothing would change\n"
    changed = bare.cress("groups", "set", "batch", "MaxQuota=<8,gpu(T4)=2>", "--dry-run").stdout
    assert "    MaxQuota: <8,gpu(T4)=1> -> <8,gpu(T4)=2>\n" in changed
    bare.cress("groups", "set", "batch", "MaxQuota=<8,gpu(T4)=2>")
    wait_until(lambda: client.job(bounded).tasks.running == 2, "the second T4")
