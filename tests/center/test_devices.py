"""What the API shows of devices, load and data: of nodes, of attempts that run and that are over, of places."""

from __future__ import annotations

from pathlib import Path

from cress.core.tables.devices import device_use
from cress.lifecycle.inputs import NodeJoined
from cress.model.devices import capacity_with, facts_of
from cress.model.events import LoadSeen
from cress.model.node import Device, Load, Node
from cress.model.resources import Dimensions
from cress.model.vectors import parse_vector
from cress.protocol import messages
from cress.protocol.messages import Refused, Welcome
from cress.shell.center.effects import Session
from tests.center.inside import Inside, inside
from tests.center.program import Center

DIMENSIONS = Dimensions(("gpu",))
DEVICES = (
    *(Device(kind="gpu", id=str(i), model="A10") for i in range(2)),
    Device(kind="disk", id="sda", path="/data/disk1", bandwidth=(200_000_000, 200_000_000, 0, 0)),
    Device(kind="disk", id="nvme", path="/data/disk2", bandwidth=(2_000_000_000, 1_000_000_000, 50_000, 0)),
)
NODE = Node(
    name="n1",
    capacity=capacity_with(parse_vector("<8, 8G>", DIMENSIONS), DEVICES, DIMENSIONS),
    attributes=tuple(facts_of(DEVICES).items()),
    devices=DEVICES,
    data=("/data/sets/a", "/data/sets/b"),
    judged=False,
)


def test_who_has_which_device_of_a_node_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.committer.submit(NodeJoined(node=NODE, boot="b"))
        part = await center.submit(name="part", resource="<1, 1G, gpu=0.46>")
        whole = await center.submit(name="whole", resource="<1, 1G, gpu=1>")
        alone = await center.submit(name="alone", resource="<1, 1G, 0, 50M>", exclusive_disk=True)
        shared = await center.submit(name="shared", resource="<1, 1G, 0, 50M>", tasks=2)
        for job in (part, whole, alone, shared):
            await center.started(job)

        def used_by(job: int, *amounts: int) -> list[tuple[int, int, int]]:
            return [(job, task, amount) for task, amount in enumerate(amounts)]

        node = await center.get("/v1/nodes/n1")
        found = {
            each["id"]: (
                each["state"],
                each["free"],
                each["idle"],
                [(user["job"], user["task"], user["amount"]) for user in each["tasks"]],
            )
            for each in node["devices"]
        }
        nothing = {"disk_read": "0", "disk_write": "0"}
        idle = {"disk_read": "1.9G", "disk_write": "900M", "iops_read": "50K"}
        assert found == {
            "0": ("shared", 540, {}, used_by(part, 460)),
            "1": ("used", 0, {}, used_by(whole, 1000)),
            "sda": ("exclusive", 0, nothing, used_by(alone, 1000)),
            "nvme": ("shared", 0, idle, used_by(shared, 0, 0)),
        }
        # It is worked out from what tasks have; the core, which decides, keeps it by device.
        core = [
            (len(left) == 1 and left[0], users)
            for _, left, users in device_use(center.committer.machine.core.cluster, 0)
        ]
        assert [(each["kind"] == "gpu" and each["free"], each["users"]) for each in node["devices"]] == core
        assert (node["disks"], node["disks_free"], node["data"]) == (2, 0, ["/data/sets/a", "/data/sets/b"])
        assert [(each["name"], [one["id"] for one in each["devices"]]) for each in node["tasks"]] == [
            ("part", ["0"]), ("whole", ["1"]), ("alone", ["sda"]), ("shared", ["nvme"]), ("shared", ["nvme"])
        ]  # fmt: skip

        (place,) = (await center.get("/v1/names/alone"))["places"]
        assert (place["disk"], place["devices"]) == ("/data/disk1", [{"kind": "disk", "id": "sda", "amount": 1000}])
        assert [each["disk"] for each in (await center.get("/v1/names/shared"))["places"]] == ["/data/disk2"] * 2
        (place,) = (await center.get("/v1/names/part"))["places"]
        assert (place["disk"], place["devices"]) == ("", [{"kind": "gpu", "id": "0", "amount": 460}])

        before = await center.get(f"/v1/jobs/{part}/tasks/0")
        assert before["attempts"][0]["devices"] == [{"kind": "gpu", "id": "0", "amount": 460}]
        for job in (part, whole, alone, shared):
            await center.end(job)
        for moved in (False, True):
            if moved:
                # To the history database, where attempts are read back from.
                assert await center.mover.move()
                assert center.committer.store.job(part) is None
            over = await center.get(f"/v1/jobs/{part}/tasks/0")
            assert over["attempts"][0]["outcome"] == "succeeded"
            assert over["attempts"][0]["devices"] == before["attempts"][0]["devices"]
        node = await center.get("/v1/nodes/n1")
        assert {each["state"] for each in node["devices"]} == {"free"}
        assert node["disks_free"] == 2

    inside(tmp_path, story, dimensions=DIMENSIONS)


def test_the_load_of_a_node_is_told_as_it_was_measured_last(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.committer.submit(NodeJoined(node=NODE, boot="b"))
        assert (await center.get("/v1/nodes"))["nodes"][0]["load"] is None
        busy = Load(cpu=950, memory=250, network=10, disk=1000, free_memory=2**30)
        await center.committer.submit(LoadSeen(name="n1", load=busy))
        told = {"cpu": 0.95, "memory": 0.25, "network": 0.01, "disk": 1.0, "free_memory": 2**30, "full": 0.0}
        (node,) = (await center.get("/v1/nodes"))["nodes"]
        assert (node["load"], node["judged"]) == (told, False)
        # No news for the machine, so it is not told.
        center.committer.sessions.loads["n1"] = Load(cpu=955, memory=250, network=10, disk=1000, free_memory=2**30)
        assert (await center.get("/v1/nodes/n1"))["load"] == told | {"cpu": 0.955}
        # The disk of an executor counts for people alone, so the machine is not told at all.
        session = Session("n1")
        center.committer.loop.present["n1"] = session
        message = messages.Load(load=busy, full=973)
        center.committer.sessions.received(session, message, center.committer.clock.now())
        assert (await center.get("/v1/nodes/n1"))["load"] == told | {"full": 0.973}

    inside(tmp_path, story, dimensions=DIMENSIONS)


def test_an_overloaded_node_says_what_is_too_much_and_a_cordoned_one_who_cordoned_it(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join("n2")
        # The sessions say which executors are connected, and there are none here: then all are away.
        await center.committer.submit(LoadSeen(name="n2", load=Load(cpu=970, free_memory=2**40)))
        assert (await center.get("/v1/nodes/n2"))["state"] == "away"
        center.committer.loop.joined["n2"] = Session("n2")
        (node,) = (await center.get("/v1/nodes"))["nodes"]
        assert (node["state"], node["reason"], node["judged"]) == ("overloaded", "cpu 97%", True)
        assert (await center.call("POST", "/v1/nodes/n2/cordon", {"reason": "new disk"}))["state"] == "cordoned"
        await center.call("POST", "/v1/nodes/n2/uncordon", {})
        await center.committer.submit(LoadSeen(name="n2", load=Load(cpu=300, free_memory=2**40)))
        assert (await center.get("/v1/nodes/n2"))["state"] == "up"

    inside(tmp_path, story)


def test_a_data_directory_may_have_more_dimensions_than_are_asked_for_in_any_order(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        assert center.committer.machine.core.dimensions.custom == ("gpu", "slot")

    for custom in (("gpu", "slot"), ("slot", "gpu"), ("slot",), ()):
        inside(tmp_path, story, dimensions=Dimensions(custom))

    async def more(center: Inside) -> None:
        assert center.committer.machine.core.dimensions.custom == ("gpu", "slot", "npu")

    inside(tmp_path, more, dimensions=Dimensions(("npu", "gpu")))
    inside(tmp_path, more)


def test_the_first_node_with_a_gpu_registers_while_jobs_run_and_the_next_center_knows_it(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        old = center.submit(name="old", resource="<1, 1G>")
        with center.executor("plain", resource="<2, 2G>") as plain:
            (first,) = plain.launches()
            gpus = tuple(Device(kind="gpu", id=str(i)) for i in range(2))
            with center.executor("new", devices=gpus, resource="<4, 4G, slots=3>") as new:
                assert isinstance(new.first, Welcome)
                assert new.first.kinds == ("slots", "gpu")
                center.submit(resource="<1, 1G, gpu=1, slots=2>")
                (launch,) = new.launches()
                assert [each.kind for each in launch.devices] == ["gpu"]
                waits = center.submit(resource="<2, 2G>", requirement='Name = "plain"')
                assert center.get("/v1/nodes/new")["used"] == {"cpu": "1", "memory": "1G", "slots": "2", "gpu": "1"}
                assert center.get("/v1/nodes/plain")["capacity"] == {"cpu": "2", "memory": "2G"}
                plain.ended(first.attempt)
                assert [each.job for each in plain.launches()] == [waits]
                events = center.http.get("/v1/events?follow=false").text
                assert '"kind":"dimensions.declared"' in events
                assert '"text":"slots, gpu"' in events
        center.kill()
    with Center(tmp_path / "data", forked=True) as center, center.executor("more", resource="<1, 1G, gpu=1>") as more:
        assert isinstance(more.first, Welcome)
        assert more.first.kinds == ("slots", "gpu")
        assert center.get(f"/v1/jobs/{old}")["resource"] == {"cpu": "1", "memory": "1G"}
        with center.executor("bad", resource="<1, 1G, GPU!=1>") as bad:
            assert isinstance(bad.first, Refused)


def test_a_kind_named_like_a_label_of_a_node_is_refused(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center, center.executor("n1", attributes={"fpga": True}):
        with center.executor("n2", resource="<1, 1G, fpga=1>") as other:
            assert isinstance(other.first, Refused)
            assert other.first.what.startswith("fpga cannot be declared: node n1: fpga is a resource")
        with center.executor("n3", resource="<1, 1G>") as fine:
            assert isinstance(fine.first, Welcome)
