"""Administrators of a group, with real centers: what they may do with its jobs and its limits, what not, and who is
told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.center.program import Center
from tests.center.test_users import submit, user_of

GROUPS = "Name: web\nResourceQuota: 4\nAdmins: gus\n\nName: lab\nResourceQuota: 4\nAdmins: kim\n"


@pytest.fixture
def center(tmp_path: Path) -> Iterator[Center]:
    """A center whose users see their own jobs only."""
    with Center(tmp_path / "data", forked=True, visibility="own") as center:
        center.put_groups(GROUPS)
        yield center


def test_they_see_and_steer_the_jobs_of_their_group_and_of_no_other(center: Center) -> None:
    with user_of(center, "ann") as ann, user_of(center, "gus") as gus, user_of(center, "kim") as kim:
        number = submit(ann, group="web")
        assert gus.get("/v1/whoami").json()["administers"] == ["web"]
        assert gus.get(f"/v1/jobs/{number}").json()["user"] == "ann"
        assert kim.get(f"/v1/jobs/{number}").status_code == 404
        assert gus.post(f"/v1/jobs/{number}/hold", json={}).status_code == 200
        assert kim.post(f"/v1/jobs/{number}/cancel", json={}).status_code == 404
        assert gus.post(f"/v1/jobs/{number}/cancel", json={}).status_code == 200
        # The right is that of the groups as they are now.
        center.put_groups(GROUPS.replace("Admins: gus\n", ""))
        assert gus.get("/v1/whoami").json()["administers"] == []
        assert gus.get(f"/v1/jobs/{number}").status_code == 404


def change(http: httpx.Client, group: str, **values: str | None) -> tuple[int, str]:
    """The status, and the differences or the error."""
    answer = http.post(f"/v1/groups/{group}", json={"values": values})
    said = answer.json()
    return answer.status_code, said["diff"] if answer.status_code == 200 else said["message"]


def test_they_close_their_group_and_change_its_limits_and_nothing_else(center: Center) -> None:
    with user_of(center, "gus") as gus, user_of(center, "ann") as ann:
        assert change(gus, "web", Submit="closed", MaxRunningJobsPerUser="5") == (
            200,
            "~ web\n    Submit: (not set) -> closed\n    MaxRunningJobsPerUser: (not set) -> 5\n",
        )
        refused = ann.post("/v1/jobs", json={"jobs": [{"command": "true", "group": "web"}]})
        assert refused.status_code == 409
        assert refused.json()["message"].startswith("group: group web is closed since ")
        assert "an administrator of the group (gus) opens it" in refused.json()["message"]
        shown = {each["name"]: each for each in ann.get("/v1/groups").json()["groups"]}["web"]
        assert (shown["closed"], shown["limits"], shown["admins"]) == (True, {"MaxRunningJobsPerUser": "5"}, ["gus"])
        assert shown["closed_since"] > 0
        assert change(gus, "web", ResourceQuota="9", MaxJobs="1") == (
            403,
            "gus may not change ResourceQuota of group web: its administrators change limits and Submit",
        )
        assert change(gus, "web", Admins="gus | ann")[0] == 403
        assert change(gus, "lab", Submit="closed") == (
            403,
            "gus may not change group lab: its administrators and admins may",
        )
        assert change(ann, "web", Submit="open")[0] == 403
        assert "MaxJobs" not in center.get("/v1/groups")["text"]
        assert change(gus, "web", Submit=None) == (200, "~ web\n    Submit: closed -> (not set)\n")
        submit(ann, group="web")
        # One who only looks on cannot, whatever group names the user.
        center.http.put("/v1/users/gus", json={"role": "viewer"})
        with user_of(center, "gus") as viewer:
            assert change(viewer, "web", Submit="closed")[0] == 403


def test_the_audit_log_the_events_and_the_history_name_who_did_it(center: Center) -> None:
    with user_of(center, "gus") as gus:
        change(gus, "web", MaxJobs="3")
        change(gus, "lab", MaxJobs="3")
    entries = [
        (each["user"], each["what"], each["status"], each.get("why", ""))
        for each in center.get("/v1/audit", limit=2)["entries"]
    ]
    assert sorted(entries, key=lambda each: each[2]) == [
        ("gus", "POST /v1/groups/web", 200, "group web: MaxJobs: (not set) -> 3"),
        ("gus", "POST /v1/groups/lab", 403, ""),
    ]
    revision = center.get("/v1/config/history")["revisions"][0]
    assert (revision["by"], revision["what"]) == ("gus", "group web: MaxJobs=3")


def test_a_change_lasts_over_a_crash(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        center.put_groups(GROUPS)
        assert change(center.http, "web", Submit="closed", ResourceQuota="3")[0] == 200
        since = {each["name"]: each for each in center.get("/v1/groups")["groups"]}["web"]["closed_since"]
        center.kill()
    with Center(tmp_path / "data", forked=True) as center:
        web = {each["name"]: each for each in center.get("/v1/groups")["groups"]}["web"]
        assert (web["closed"], web["closed_since"], web["quota"]) == (True, since, "3")


def test_a_dry_run_and_a_wrong_change_change_nothing(center: Center) -> None:
    answer = center.http.post("/v1/groups/web", params={"dry_run": "true"}, json={"values": {"MaxJobs": "3"}})
    assert answer.json()["diff"] == "~ web\n    MaxJobs: (not set) -> 3\n"
    assert change(center.http, "web", MaxJobs="3", MaxTasks="none of your business")[0] == 422
    assert change(center.http, "nobody", MaxJobs="3")[0] == 422
    assert "MaxJobs" not in center.get("/v1/groups")["text"]
