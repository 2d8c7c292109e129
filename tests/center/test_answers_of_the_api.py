"""Explanations of running tasks, ended attempts, groups and nodes through the API: real decisions, a real store."""

from __future__ import annotations

import re
from pathlib import Path

from tests.center.inside import Inside, inside, until

GROUPS = "Name: a\nResourceQuota: 4\n\nName: b\nResourceQuota: 4\n"


def test_a_preemption_is_explained_on_all_sides(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.call("PUT", "/v1/groups", {"text": GROUPS})
        await center.join("n1", 8)
        victim = await center.submit(group="a", resource="<8, 1G>", time_limit="1h", name="victim")
        await center.started(victim)
        taker = await center.submit(group="b", resource="<4, 1G>", time_limit="1h", name="taker")
        await center.end(victim, code=-15)
        assert (await center.get(f"/v1/jobs/{taker}"))["tasks"]["running"] == 1
        rule = "group b is owed its quota (uses 0 of 4 cores), and group a uses 8 of 4 cores"
        events = [event for event in center.committer.events.after(0, 1000) if event.kind == "task.preempted"]
        assert [event.text for event in events] == [f"for job {taker}: {rule}"]
        (ended,) = (await center.get(f"/v1/jobs/{victim}/explanation"))["ended"]
        assert (ended["outcome"], ended["node"], ended["rule"]) == ("preempted", "n1", rule)
        assert ended["why"] == f"preempted for job {taker} (taker) of group b"
        found = await center.get(f"/v1/jobs/{taker}/explanation")
        assert [(node["node"], node["here"]) for node in found["best"]] == [("n1", True)]
        assert found["reason"] == ""
        of_group = await center.get("/v1/groups/a/explanation")
        assert of_group["uses"] == "0 of 4 cores"
        assert of_group["reasons"][0]["kind"] == "cooling"
        of_node = await center.get("/v1/nodes/n1/explanation")
        assert of_node["tasks"] == 1
        assert of_node["reasons"][0]["text"] == f"job {victim} would need more cpu than is free here"
        # What happened long ago is told as well, when its event is no longer kept.
        center.committer.loop.events.load(None)
        (ended,) = (await center.get(f"/v1/jobs/{victim}/explanation"))["ended"]
        assert ended["rule"] == rule
        await center.call("GET", "/v1/groups/zz/explanation", status=422)
        await center.call("GET", "/v1/nodes/zz/explanation", status=404)

    inside(tmp_path, story)


def test_a_job_that_ended_late_is_told_by_how_much_and_where_the_time_went(tmp_path: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join("n1", 4)
        late = await center.submit(resource="<4, 1G>", deadline="1s")
        await center.started(late)
        deadline = center.committer.machine.jobs[late].job.deadline
        await until(lambda: center.committer.clock.utc() > deadline)
        await center.end(late)
        told = (await center.get(f"/v1/jobs/{late}/explanation"))["late"]
        some = r"\d+(\.\d)?m?s"
        assert re.fullmatch(
            f"it ended {some} after its deadline: it waited for {some}, and took {some} from its start", told
        ), told

    inside(tmp_path, story)
