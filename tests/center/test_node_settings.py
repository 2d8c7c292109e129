"""Settings of a node over the real API and by the real command: labels, what is kept back, revisions, rights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cress.cli.main import app
from cress.client import Client, Refused
from cress.lifecycle.inputs import NodeLeft
from tests.center.inside import Inside, inside
from tests.center.program import Center

NODE = "/v1/nodes/n1"


def test_settings_hold_at_once_and_in_the_center_that_starts_again(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join(cores=4)
        await center.join("n2", cores=4)
        await center.call("POST", f"{NODE}/settings", {"labels": {"zone": "us"}})
        await center.call("POST", "/v1/nodes/n2/settings", {"labels": {"zone": "eu"}})
        await center.call("POST", "/v1/nodes/n2/cordon", {})
        waiting = await center.submit(requirement="zone = 'eu'")
        assert (await center.get(f"/v1/jobs/{waiting}"))["state"] == "waiting"
        change = {"labels": {"zone": "eu"}, "rack": "r7", "reserve": "<1, 2G>", "note": "fan is loud"}
        page = await center.call("POST", f"{NODE}/settings", change)
        assert page["settings"]["what"] == "zone=eu rack=r7 reserve=<1, 2G> note=fan is loud"
        assert (await center.get(NODE))["running"] == 1

    async def again(center: Inside) -> None:
        for step in range(2):
            node = await center.get(NODE)
            assert (node["attributes"]["zone"], node["rack"], node["capacity"]["cpu"]) == ("eu", "r7", "3"), step
            assert node["settings"]["reserve"] == {"cpu": "1", "memory": "2G"}
            assert (node["settings"]["by"], node["settings"]["note"]) == ("ann", "fan is loud")
            assert (node["reported"]["rack"], node["reported"]["capacity"]["cpu"]) == ("", "4")
            # Its executor starts again.
            await center.committer.submit(NodeLeft(name="n1"))
            await center.join(cores=4)
        page = await center.get(f"{NODE}/settings")
        assert [each["revision"] for each in page["revisions"]] == [2, 1]
        await center.call("POST", f"{NODE}/settings", {"revert": 0})
        node = await center.get(NODE)
        assert (node["settings"], node["rack"], node["capacity"]["cpu"]) == (None, "", "4")

    inside(tmp_path, story)
    inside(tmp_path, again)


@pytest.fixture
def nodes(shared: Center, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return what a verb of ``cress nodes`` prints."""
    monkeypatch.setenv("CRESS_DATA", str(shared.data))
    monkeypatch.setattr("cress.client.config._chosen", [])
    for name in ("CRESS_URL", "CRESS_TOKEN", "CRESS_SOCKET", "CRESS_CLUSTER"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["nodes", *words])
        assert done.exit_code == code, (words, done.output, done.stderr)
        return done.stdout if code == 0 else done.stderr

    return call


def test_the_command_sets_labels_and_shows_where_they_come_from(shared: Center, nodes: Callable[..., str]) -> None:
    with shared.executor("m1", rack="r1", attributes={"zone": "us", "GCC": "12"}):
        assert nodes("label", "m1", "zone=eu", "ssd=true", "slots=4") == (
            "node m1: zone=eu ssd=true slots=4 (revision 1)\n"
        )
        assert nodes("label", "m1", "zone=eu") == "node m1: nothing changed (revision 1)\n"
        assert nodes("label", "m1", "slots-") == "node m1: slots- (revision 2)\n"
        assert nodes("set", "m1", "rack=r7", "reserve=1,2G", "judged=false", "note=fan is loud") == (
            "node m1: rack=r7 reserve=1,2G judged=false note=fan is loud (revision 3)\n"
        )
        shown = re.sub(r"[0-9-]{5,} [0-9:]+|  +", "  ", nodes("m1"))
        for line in (
            "Rack  r7 (set in the center; its executor: r1)",
            "Kept back  cpu 1, memory 2G (set in the center)",
            "Load  does not count (set in the center)",
            "Note  fan is loud",
            "zone  eu (set in the center; its executor: us)",
            "ssd  true (set in the center)",
            "GCC  12",
        ):
            assert line in shown, shown
        assert re.search(r"NOTE *\n.* fan is loud", nodes("--wide"))
        page = json.loads(nodes("settings", "m1", "--json"))
        assert page["reported"]["attributes"] == {"zone": "us"}
        assert [each["revision"] for each in page["revisions"]] == [3, 2, 1]
        listed = nodes("settings", "m1")
        assert re.search(r"2  .*  slots-\n", listed)
        assert nodes("set", "m1", "rack-", "note-") == "node m1: rack- note- (revision 4)\n"
        assert shared.get("/v1/nodes/m1")["rack"] == "r1"
        assert json.loads(nodes("revert", "m1", "0", "--json"))["settings"]["labels"] == {}
        assert shared.get("/v1/nodes/m1")["settings"] is None


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["label", "m2", "zone"], 2, "'zone' is not a label"),
        (["label", "m2", "zone=a", "ZONE-"], 2, "ZONE: is given twice"),
        (["label", "m2", "memory=9"], 2, "memory is a resource"),
        (["label", "m2", "zone-"], 2, "the label zone is not set in the center"),
        (["label", "m3", "zone=a"], 2, "there is no node 'm3'"),
        (["set", "m2", "rak=r1"], 2, "rak: is not a setting of a node (did you mean rack?"),
        (["set", "m2", "rack"], 2, "rack: has no value"),
        (["set", "m2", "judged=maybe"], 2, "judged: 'maybe' is not a truth value"),
        (["set", "m2", "reserve=lots"], 2, "'lots' does not begin with a number"),
        (["set", "m2", "reserve=<0, 0, 0, 5M>"], 2, "disk_read cannot be kept back"),
        (["set", "m2", "repels=,"], 2, "repels: '' is not a name"),
        (["set", "m2", "repels=gpu,gpu"], 2, "repels: gpu is given twice"),
        (
            ["set", "m2", 'accepts=Job.Owner = "root"'],
            2,
            'accepts: at character 1, `Job.Owner = "root"`: a job has no Job.Owner',
        ),
        (["set", "m2", "accepts=Job.User = ann"], 2, 'the node has no attribute ann (a text must be in quotes: "ann")'),
        (["revert", "m2", "9"], 2, "node m2 has no revision 9"),
    ],
)
def test_mistakes_are_told_and_change_nothing(
    words: list[str], code: int, says: str, shared: Center, nodes: Callable[..., str]
) -> None:
    with shared.executor("m2"):
        assert says in nodes(*words, code=code)
        assert shared.get("/v1/nodes/m2/settings")["settings"]["revision"] == 0


def test_the_python_client_sets_labels_unless_somebody_else_was_faster(shared: Center) -> None:
    with shared.executor("m4"), Client(shared.address["url"], shared.token) as client:
        page = client.set_node("m4", labels={"zone": "eu"}, revision=0)
        assert (page.settings.labels, page.settings.revision) == ({"zone": "eu"}, 1)
        with pytest.raises(Refused, match="revision 1, and the change is based on 0"):
            client.set_node("m4", labels={"zone": None}, revision=0)
        assert client.set_node("m4", labels={"zone": None}).settings.labels == {}
        assert len(client.node_settings("m4").revisions) == 2
