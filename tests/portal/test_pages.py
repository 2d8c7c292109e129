"""Groups, reservations, what-if, leases, efficiency, names, licences, access: through a real portal, without a browser
where none is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import httpx
import msgspec
import pytest
from playwright.sync_api import Browser, expect

from cress.client import calls
from cress.portal.group_texts import changed_text, keywords_of
from cress.portal.groups_view import GroupRow
from cress.portal.map_changes import MOST_MAPS, MapVersions
from cress.portal.nodes_view import MOST_PARTS, attributes_of, in_order, map_of, used_dimensions
from cress.portal.pages.overview import MOST_GROUPS, busiest, troubles_of
from cress.portal.pages.usage import rows_of
from cress.portal.past import curves_of
from cress.portal.texts import script_data
from cress.portal.weeks import calendar_of, times_of, timetable_of
from cress.protocol.cluster_views import EfficiencyView, NodeView, PastUsePage
from cress.protocol.lease_views import ReservationView
from tests.center.providers import ProviderProcess
from tests.portal.running import Portal, csrf_of, opened
from tests.system.cluster import Cluster, wait_until

TEXT = "Name: news\nResourceQuota: 2\nUsers: *\n\nName: lab\nResourceQuota: 1\nUsers: *\nMaxJobs: 9\n"


@pytest.fixture(autouse=True)
def groups(cluster: Cluster) -> Iterator[None]:
    """Groups as each test expects them."""
    with cluster.client() as client:
        client.apply_groups(TEXT)
        yield


# --- texts and drawings ----------------------------------------------------------------------------------------------


def test_keywords_of_one_group_are_read_and_changed_in_the_text() -> None:
    text = TEXT + "\n# a comment\nName: other\nResourceQuota: 1\nPriority: 12\n"
    assert keywords_of(text, "lab") == {"ResourceQuota": "1", "Users": "*", "MaxJobs": "9"}
    assert keywords_of(text, "other") == {"ResourceQuota": "1"}
    assert keywords_of(text, "nowhere") == {}
    new = changed_text(text, "lab", {"ResourceQuota": "3", "MaxJobs": None, "Weight": "2"})
    assert keywords_of(new, "lab") == {"ResourceQuota": "3", "Users": "*", "Weight": "2"}
    assert keywords_of(new, "news") == keywords_of(text, "news")


def test_a_timetable_is_a_week() -> None:
    drawn = timetable_of("2; Mon-Fri 09:00-18:00 = 5; Sat 22:00-02:00 = 1")
    assert drawn is not None
    told = [bar.text for bar in drawn.bars]
    assert "Monday 09:00 to 18:00: 5" in told
    # A window that crosses midnight lies in the rows of both days.
    assert {"Saturday 22:00 to 24:00: 1", "Sunday 00:00 to 02:00: 1"} <= set(told)
    assert {bar.kind for bar in drawn.bars if bar.label == "5"} == {"shade4"}
    assert timetable_of("2") is None
    assert timetable_of("2; whenever = 3") is None


def node(name: str, rack: str = "", state: str = "up", cpu: tuple[int, int] = (0, 4), **attributes: str) -> NodeView:
    """A node with so many cores used and in all."""
    view: Any = SimpleNamespace(
        name=name,
        rack=rack,
        state=state,
        attributes=attributes,
        running=1,
        load=None,
        used_amounts={"cpu": cpu[0]},
        capacity_amounts={"cpu": cpu[1]},
    )
    return view  # type: ignore[no-any-return]


def test_nodes_are_grouped_by_an_attribute_and_the_map_has_only_what_differs() -> None:
    nodes = [
        node("a", "r2", zone="west", OS="debian", Hostname="a"),
        node("b", "r1", "away", OS="debian", Hostname="b"),
        node("c", "r1", zone="east", OS="debian", Hostname="c", cpu=(1, 3)),
        node("d", "r1", zone="west", OS="debian", Hostname="d", cpu=(0, 0)),
    ]
    # One value divides nothing, and so many values as nodes may be many parts of a large cluster.
    assert attributes_of(nodes) == ["Rack", "zone", "Hostname"]
    assert attributes_of([node(f"n{i}", Hostname=f"n{i}") for i in range(MOST_PARTS + 1)]) == []
    drawn = map_of(nodes, "zone")
    assert drawn.parts == [("zone east", 1), ("zone west", 2), ("without zone", 1)]
    assert drawn.columns("cpu") == {
        "names": ["c", "a", "d", "b"],
        "parts": drawn.parts,
        "states": {3: "away"},
        "racks": [("r1", 1), ("r2", 1), ("r1", 2)],
        "shares": [33, 0, -1, 0],
        "running": [1, 1, 1, 1],
    }
    assert map_of(nodes, "Rack").parts == [("Rack r1", 3), ("Rack r2", 1)]
    # The table has the dimensions that some node uses, and the first two.
    used = used_dimensions([node("a", cpu=(2, 4)), node("b")], ["memory", "disk", "cpu", "network"])
    assert used == {"memory", "disk", "cpu"}
    assert map_of(nodes, "").parts == [("", 4)]
    assert sorted(["n10", "n2", "a", "n2b", "2", "10"], key=in_order) == ["2", "10", "a", "n2", "n2b", "n10"]
    assert "</script" not in script_data({"names": ["</script><script>"]})


def test_a_page_gets_what_changed_of_the_map_since_its_version() -> None:
    versions = MapVersions()

    def sent(nodes: list[NodeView], since: str = "", asked: str = "by=cpu") -> Any:
        answer = versions.answer(asked, map_of(nodes, "").columns("cpu"), since)
        return None if answer is None else msgspec.json.decode(answer)

    many = [node(f"n{i}", cpu=(0, 4)) for i in range(1000)]
    first = sent(many)
    assert (first["shares"], first["names"][:2], "since" in first) == ([0] * 1000, ["n0", "n1"], False)
    # Nothing has changed: nothing is sent.
    assert sent(many, first["version"]) is None
    later = [*many[:500], node("n500", cpu=(2, 4)), *many[501:-1], node("n999", state="away", cpu=(0, 4))]
    second = sent(later, first["version"])
    changed = {"shares": [[500, 50]], "running": [], "states": {"999": "away"}, "since": first["version"]}
    assert {name: value for name, value in second.items() if name != "version"} == changed
    assert sent(many, second["version"])["shares"] == [[500, 0]]
    # Other nodes, another filter, or a version that nobody knows: all is sent.
    assert len(sent(later[:-1], first["version"])["names"]) == 999
    assert len(sent(later, first["version"], "by=memory")["names"]) == 1000
    assert len(sent(later, "unknown")["names"]) == 1000
    for number in range(20):
        sent(many, asked=f"by=cpu&name={number}")
    assert len(versions._maps) <= MOST_MAPS


@pytest.mark.parametrize(("shares", "says"), [((0.5, 0.5), []), ((0.8, 0.7), ["the quotas of all groups are 150 %"])])
def test_quotas_beyond_the_cluster_need_a_person(shares: tuple[float, ...], says: list[str]) -> None:
    def row(share: float | None, depth: int) -> Any:
        return GroupRow(cast("Any", SimpleNamespace(name="g", closed=False, share_of_cluster=share)), depth, 0.0, False)

    state: Any = SimpleNamespace(problem="", delay=None, nodes=1)
    up: Any = SimpleNamespace(name="n1", state="up", unlimited=(), load=None)
    # A group below another one has a part of its quota.
    rows = [*(row(share, 0) for share in shares), row(0.5, 1), row(None, 0)]
    found = troubles_of(state, [up], rows, 0)
    assert [one.what.removesuffix(" of the cluster") for one in found] == says


def test_the_overview_of_hundreds_of_groups_lists_those_that_use_most_in_their_order() -> None:
    view: Any = SimpleNamespace(name="g")
    rows = [GroupRow(view, 0, number / 300, over=number == 7) for number in range(300)]
    listed = busiest(rows)
    assert [row.share for row in listed] == [7 / 300, *(number / 300 for number in range(281, 300))]
    assert busiest(rows[:MOST_GROUPS]) == rows[:MOST_GROUPS]


def test_a_node_whose_disk_is_nearly_full_needs_a_person() -> None:
    state: Any = SimpleNamespace(problem="", delay=None, nodes=1)
    nodes: Any = [
        SimpleNamespace(name=f"n{number}", state="up", unlimited=(), load=SimpleNamespace(full=full))
        for number, full in enumerate((0.2, 0.949, 0.95, 0.999))
    ]
    (found,) = troubles_of(state, nodes, [], 0)
    assert found.what == "the disk is nearly full: n2 (95 %), n3 (100 %)"


def test_curves_of_the_past_have_gaps_and_reach_to_the_quota_or_to_the_use_beyond_it() -> None:
    answer = PastUsePage(
        begin=600.0,
        step=15.0,
        use={"cpu": (None, 0.5, 1.0, None, 0.25), "memory": (None,) * 5},
        groups={"lab": (0.5, None, None, None, 1.0), "web": (2.0, 2.0, 1.0, 1.0, 1.0)},
        tasks={"running": (0.0, 0.0, 0.0, 0.0, 50.0), "waiting": (100.0, 0.0, 0.0, 0.0, 0.0)},
    )
    past = curves_of(answer, "hour")
    assert (past.begin, past.end) == (600.0, 675.0)
    # A gap divides the curve, and a single point is a short line.
    assert past.use["cpu"].parts == ("75.0,30.0 150.0,2.0", "300.0,44.0 300.0,44.0")
    assert "memory" not in past.use
    assert (past.groups["lab"].line, past.groups["lab"].parts[-1]) == (2.0, "300.0,2.0 300.0,2.0")
    # Half of the height is the quota of a group that used twice of it.
    assert (past.groups["web"].line, past.groups["web"].most) == (15.0, 2.0)
    # A young cluster has only the end of a span, which fills the drawing.
    young = PastUsePage(begin=0.0, step=15.0, use={"cpu": (*[None] * 200, *[0.5] * 40)})
    assert (curves_of(young, "hour").begin, curves_of(young, "hour").end) == (3000.0, 3600.0)
    assert curves_of(young, "hour").use["cpu"].parts[0].startswith("0.0,30.0 ")
    # Running and waiting tasks have scales of their own.
    assert past.tasks["running"].parts[0].endswith("300.0,2.0")
    assert past.tasks["waiting"].parts[0].startswith("0.0,2.0")


@pytest.mark.parametrize(
    ("every", "days"),
    [
        ("", [3]),
        ("day", list(range(3, 14))),
        ("week", [3, 10]),
        ("thu-fri", [3, 4, 10, 11]),
        ("Thu", [3, 10]),
    ],
)
def test_a_reservation_repeats_in_the_calendar(every: str, days: list[int]) -> None:
    zone, weeks = ZoneInfo("Europe/Berlin"), (date(2026, 11, 23), date(2026, 11, 30), date(2026, 12, 7))
    start = 1_796_274_000.0  # Thursday 2026-12-03 06:00 in Berlin
    one = ReservationView(name="exam", group="b", start=start, until=start + 7200, every=every, nodes={"n1": 1})
    assert [begin.day for monday in weeks for begin, _ in times_of(one, monday, zone)] == days
    drawn = calendar_of([one], weeks[1], zone)
    assert "2026-12-03 06:00 to 2026-12-03 08:00" in drawn.bars[0].text


# --- a group ---------------------------------------------------------------------------------------------------------


def test_a_quota_is_edited_after_a_look_at_what_it_would_do(browser: Browser, portal: Portal, cluster: Cluster) -> None:
    with opened(browser, portal) as page, cluster.client() as client:
        page.goto(f"{portal.url}/groups")
        expect(page.get_by_role("region", name="Groups")).not_to_contain_text("borrows 0")
        page.goto(f"{portal.url}/groups?name=EW")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_role("link", name="news", exact=True).click()
        page.get_by_label("ResourceQuota").fill("much")
        # What was typed is still there after another page; nothing else of the form is kept.
        page.goto(f"{portal.url}/jobs")
        page.goto(f"{portal.url}/groups/news")
        expect(page.get_by_label("ResourceQuota")).to_have_value("much")
        expect(page.locator(".draft")).to_contain_text("it was not made")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("alert")).to_contain_text("much")
        page.get_by_label("ResourceQuota").fill("1")
        page.get_by_role("button", name="Preview").click()
        preview = page.get_by_role("region", name="This change is not made yet")
        expect(preview).to_contain_text("ResourceQuota: 2 -> 1")
        expect(preview).to_contain_text("mean wait")
        assert keywords_of(client.groups().text, "news")["ResourceQuota"] == "2"
        page.get_by_role("button", name="Make this change").click()
        expect(page.locator(".told")).to_contain_text("1 change made to group news")
        assert keywords_of(client.groups().text, "news")["ResourceQuota"] == "1"
        expect(page.get_by_label("ResourceQuota")).to_have_value("1")
        expect(page.locator(".draft")).to_be_hidden()
        # The message of another form forgets nothing.
        page.get_by_label("ResourceQuota").fill("7")
        for button in ("Cordon", "Uncordon"):
            page.goto(f"{portal.url}/nodes/n1")
            page.get_by_role("button", name=button, exact=True).click()
            expect(page.locator(".told")).to_be_visible()
        page.goto(f"{portal.url}/groups/news")
        expect(page.get_by_label("ResourceQuota")).to_have_value("7")
        # A value that an address proposes stands; a preview that is left as it was leaves nothing behind.
        page.goto(f"{portal.url}/groups/news?ResourceQuota=2#edit")
        expect(page.get_by_label("ResourceQuota")).to_have_value("2")
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("link", name="Leave it as it was").click()
        expect(page.get_by_label("ResourceQuota")).to_have_value("1")
        expect(page.locator(".draft")).to_be_hidden()


def test_a_user_sees_no_form_and_an_administrator_of_a_group_its_limits(portal: Portal, cluster: Cluster) -> None:
    with cluster.client() as client:
        client.ask(calls.set_user("ann", "user", ["lab"]))
        secret = client.ask(calls.create_token("t", user="ann")).secret
    with httpx.Client(base_url=portal.url, trust_env=False, follow_redirects=True) as ann:
        assert ann.post("/login", data={"token": secret}).status_code == 200
        assert "MaxJobs" not in ann.get("/groups/news").text
        shown = ann.get("/groups/lab").text
        assert 'name="MaxJobs"' in shown
        assert 'name="ResourceQuota"' not in shown
        form = {"csrf": csrf_of(ann), "MaxJobs": "5"}
        assert ann.post("/groups/lab/change", data=form).status_code == 200
        assert ann.post("/groups/news/change", data=form).status_code == 403
        # What others may see is refused with a page, not with a failure.
        assert ann.get("/audit").status_code == 403
        assert "Make a token" in ann.get("/access").text
    with cluster.client() as client:
        assert [keywords_of(client.groups().text, name).get("MaxJobs") for name in ("lab", "news")] == ["5", None]


# --- reservations ----------------------------------------------------------------------------------------------------


def test_a_reservation_is_looked_at_made_and_removed(owner: httpx.Client, cluster: Cluster) -> None:
    form = {"csrf": csrf_of(owner), "name": "exam", "group": "lab", "nodes": "n1", "start": "+2h", "length": "1h"}
    with cluster.client() as client:
        planned = owner.post("/reservations", data={**form, "preview": "1"})
        assert "is not made yet" in planned.text
        assert client.reservations().reservations == ()
        wrong = owner.post("/reservations", data={**form, "length": "long"})
        assert wrong.status_code == 422
        assert "long" in wrong.text
        assert owner.post("/reservations", data=form).status_code == 303
        shown = owner.get("/reservations").text
        assert 'id="reservation-exam"' in shown
        assert owner.get("/reservations?week=soon").status_code == 422
        assert owner.post("/reservations/exam/remove", data={"csrf": form["csrf"]}).status_code == 303
        assert client.reservations().reservations == ()


# --- what if, leases, efficiency, names, licences, access ------------------------------------------------------------


def test_a_change_is_tried_and_changes_nothing(owner: httpx.Client, cluster: Cluster) -> None:
    csrf = csrf_of(owner)
    with cluster.client() as client:
        found = owner.post("/what-if", data={"csrf": csrf, "jobs": "name: tried\ncommand: sleep 5\ntime_limit: 1min\n"})
        assert found.status_code == 200, found.text
        assert "Job tried would start" in found.text
        assert "mean wait" in found.text
        assert not [job for job in client.jobs().jobs if job.name == "tried"]
    refused: list[tuple[dict[str, str], str]] = [
        ({}, "no change is described"),
        ({"remove_nodes": "n77"}, "n77"),
        ({"options": "x"}, "KEY=VALUE"),
    ]
    for wrong, says in refused:
        answer = owner.post("/what-if", data={"csrf": csrf, **wrong})
        assert answer.status_code == 422
        assert says in answer.text


def test_pages_of_leases_names_licences_and_efficiency(owner: httpx.Client, cluster: Cluster) -> None:
    with cluster.client() as client:
        assert "There are no leases" in owner.get("/leases").text
        assert "has no licences" in owner.get("/licences").text
        body = {"workload": "spark", "count": 1, "resource": "<1, 64M>", "group": "lab"}
        lease = client.request_leases(body).leases[0].id
        wait_until(lambda: [one.state for one in client.leases().leases] == ["held"], "the lease")
        wait_until(lambda: "Give back" in owner.get("/leases").text, "the page")
        shown = owner.get("/leases").text
        number = re.search(r'action="(/leases/[^"]+/release)"', shown)
        assert number is not None, lease
        assert owner.post(number[1], data={"csrf": csrf_of(owner)}).status_code == 303
        job = client.submit([{"name": "found", "command": "sleep 60", "resource": "<1, 64M>"}]).jobs[0].id
        wait_until(lambda: f"{job}.0" in owner.get("/names?name=found").text, "the place of the task")
        client.cancel(job)
        assert owner.get("/efficiency?by=user").status_code == 200
    # The cells of the map come when the page is there.
    assert 'data-from="/map?by=memory"' in owner.get("/nodes?by=memory").text
    sent = owner.get("/map?by=memory").json()
    assert sent["names"] == ["n1"]
    assert owner.get("/map", params={"by": "memory", "since": sent["version"]}).status_code in (200, 204)
    assert "All nodes" in owner.get("/nodes/nowhere", headers={"accept": "text/html"}).text


def test_rows_of_usage_have_hours_shares_and_costs() -> None:
    def work(label: str, cores: float, gpus: float = 0.0) -> EfficiencyView:
        held = {"cpu": 3600 * cores, "memory": 3600 * 2.0**30} | ({"gpu": 3600 * gpus} if gpus else {})
        return EfficiencyView("", "", "", 2, 3, 60.0, held, 1800.0, 0, 0, label=label)

    red, rest = rows_of((work("", 1), work("red", 3, 0.5)), "label", {"cpu": 2.0, "gpu": 10.0})
    assert (red.title, red.share, red.cores, red.memory, red.others, red.cost) == ("red", 0.75, 3, 1, {"gpu": 0.5}, 11)
    assert (rest.title, rest.cost) == ("", 2)


def test_usage_by_label_and_a_plan_before_a_submit(owner: httpx.Client, cluster: Cluster) -> None:
    with cluster.client() as center:
        job = center.submit([{"name": "used", "command": "true", "labels": {"team": "red"}}]).jobs[0].id
        center.job(job, wait=30)
        waiting = center.state().jobs_waiting
        assert "Enter the name of a label" in owner.get("/usage?by=label").text
        assert "gpu=x&#39; is not NAME=NUMBER" in owner.get("/usage?weights=gpu%3Dx").text
        text = "name: tried\ncommand: sleep 60\ntasks: 2\n"
        secret = {"csrf": csrf_of(owner)}
        page = owner.post("/submit/plan", data=secret | {"text": text}).text
        assert "Nothing is submitted yet" in page
        assert "Job tried would start" in page
        assert "sleep 60" in page
        wrong = owner.post("/submit/plan", data=secret | {"text": "name: x\ntaks: 2\n"})
        assert (wrong.status_code, "taks" in wrong.text) == (422, True)
        assert center.state().jobs_waiting == waiting


def test_a_token_is_made_shown_once_and_revoked(owner: httpx.Client) -> None:
    csrf = csrf_of(owner)
    made = owner.post("/access/tokens", data={"csrf": csrf, "name": "ci", "role": "viewer", "expires": "1h"}).text
    secret = re.search(r"cress_\w+", made)
    assert secret is not None
    shown = owner.get("/access").text
    assert secret[0] not in shown
    number = re.search(r'action="(/access/tokens/[^"]+/revoke)"', shown)
    assert number is not None
    assert owner.post(number[1], data={"csrf": csrf}).status_code == 303
    assert owner.post("/access/tokens", data={"csrf": csrf, "name": "ci", "expires": "soon"}).status_code == 422
    assert owner.post("/access/users", data={"csrf": csrf, "name": "bob", "role": "operator"}).status_code == 303
    assert "bob" in owner.get("/access").text
    assert "/v1/users/bob" in owner.get("/audit").text


# --- OpenID Connect --------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_user_signs_in_with_the_provider_and_signs_out(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ProviderProcess(tmp_path_factory.mktemp("provider") / "log") as provider:
        cluster = Cluster()
        try:
            cluster.start_center(
                "--oidc-issuer", provider.url, "--oidc-client-id", "cress", "--oidc-domain", "example.com"
            )
            portal = Portal(cluster)
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"{portal.url}/jobs")
            page.get_by_role("button", name="Sign in with 127.0.0.1").click()
            code = page.locator("#code").inner_text()
            # Another browser cannot take the place of the one that began.
            with httpx.Client(base_url=portal.url, trust_env=False) as other:
                assert other.get("/login/provider").status_code == 401
            claims = {"email": "ann@example.com", "email_verified": True}
            provider.tell("answer", code=code, approved=True, claims=claims)
            page.wait_for_url("**/jobs")
            expect(page.locator("a.user")).to_contain_text("ann user")
            with cluster.client() as client:
                assert [token.user for token in client.ask(calls.tokens()).tokens] == ["ann"]
                page.get_by_role("button", name="Sign out").click()
                expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
                assert client.ask(calls.tokens()).tokens == ()
            # A user who says no.
            page.get_by_role("button", name="Sign in with 127.0.0.1").click()
            provider.tell("answer", code=page.locator("#code").inner_text(), approved=False, claims=claims)
            expect(page.get_by_role("alert")).to_contain_text("denied")
            context.close()
            portal.stop()
        finally:
            cluster.stop()


def test_a_center_without_a_provider_offers_none(portal: Portal) -> None:
    with closing(httpx.Client(base_url=portal.url, trust_env=False)) as stranger:
        page = stranger.get("/login")
        assert (page.status_code, "/login/provider" in page.text) == (200, False)
        origin = {"Origin": portal.url}
        assert stranger.post("/login/provider", data={"next": "//evil"}, headers=origin).status_code == 401
