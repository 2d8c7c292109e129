"""The portal in a real browser: submit, watch, log, explain, cancel; a user who may not; a center that is killed."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from cress.client import Client
from tests.portal.running import Portal, opened
from tests.system.cluster import Cluster, wait_until

LOOP = r"""
name: looper
command:
  - sh
  - -c
  - |
    printf "\033]0;title\n\033[1;31;4:0;38:2::1:2:3mred\033[0m plain\n\033[32m10 %%\r20 %%\033[0m\r\nlast 1"
    sleep 1
    printf "\rlast 2\n"
    i=0; while true; do i=$((i+1)); echo step $i; sleep 0.2; done
resource: <1, 64M>
"""
WRONG = "name: wrong\ncommand: echo hello\ntaks: 3\n"
PAGES = (
    "/",
    "/jobs",
    "/nodes",
    "/nodes/n1",
    "/names?name=shown",
    "/groups",
    "/groups/default",
    "/reservations",
    "/leases",
    "/licences",
    "/usage",
    "/usage?by=label&label=team&weights=cpu%3D1",
    "/efficiency",
    "/events",
    "/timeline",
    "/submit",
    "/what-if",
    "/reports",
    "/access",
    "/audit",
)
SIZES = ((1280, 800), (768, 1024), (390, 844))


def write(page: Page, text: str) -> None:
    page.fill("#text", text)


def test_a_job_is_submitted_watched_and_cancelled(browser: Browser, portal: Portal) -> None:
    with opened(browser, portal) as page:
        page.goto(f"{portal.url}/submit")
        write(page, WRONG)
        expect(page.locator("#verdict")).to_contain_text("line 3")
        expect(page.locator("#verdict")).to_contain_text("taks")
        write(page, LOOP)
        expect(page.locator("#verdict")).to_contain_text("looper can be submitted")
        page.get_by_role("button", name="Submit").click()
        expect(page.locator(".told")).to_contain_text("is submitted")
        # The page changes by itself when the task starts.
        expect(page.locator("h1 .badge")).to_have_text("running")
        page.get_by_role("link", name="log of task 0").click()
        expect(page.locator("#log")).to_contain_text("step 3")
        # Colours are shown, and progress that is written over itself is told once.
        expect(page.locator("#log .ink1.bold")).to_have_text("red")
        expect(page.locator("#log .ink2")).to_have_text("20 %")
        expect(page.locator("#log")).to_contain_text("red plain\n20 %\nlast 2\nstep 1\n", use_inner_text=True)
        page.get_by_role("link", name="looper").click()
        page.get_by_role("button", name="Cancel job").click()
        expect(page.locator(".told")).to_contain_text("is being cancelled")
        expect(page.locator("h1 .badge")).to_have_text("cancelled")


def test_a_typed_job_outlives_the_session(browser: Browser, portal: Portal) -> None:
    with opened(browser, portal) as page:
        page.goto(f"{portal.url}/submit")
        example = page.input_value("#text")
        page.context.clear_cookies()
        write(page, "name: precious\ncommand: true\n")
        expect(page.locator("#verdict")).to_contain_text("the text is kept")
        page.get_by_role("button", name="Submit").click()
        # The page for signing in leads back to the form.
        expect(page.locator("input[name=next]").first).to_have_value("/submit")
        page.goto(portal.new_link())
        page.wait_for_url(f"{portal.url}/")
        page.goto(f"{portal.url}/submit")
        expect(page.locator("#text")).to_have_value("name: precious\ncommand: true\n")
        expect(page.locator("#verdict")).to_contain_text("precious can be submitted")
        page.get_by_role("button", name="Submit").click()
        expect(page.locator(".told")).to_contain_text("is submitted")
        # What was submitted is no draft any more.
        page.goto(f"{portal.url}/submit")
        expect(page.locator("#text")).to_have_value(example)
        expect(page.locator(".draft")).to_be_hidden()


def test_filters_are_those_of_the_address_and_the_keyboard_passes_over_values(browser: Browser, portal: Portal) -> None:
    with opened(browser, portal) as page:
        page.goto(f"{portal.url}/jobs")
        state = page.get_by_label("State")
        state.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(state).to_have_value("running")
        page.get_by_role("button", name="Filter").press("Enter")
        page.wait_for_url("**/jobs?*")
        # Neither a value on the way nor an empty filter is in the address.
        assert page.url == f"{portal.url}/jobs?state=running"
        page.go_back()
        page.wait_for_url("**/jobs")
        expect(state).to_have_value("")
        # On paper the dark theme is light, and nothing is there to click.
        page.emulate_media(media="print", color_scheme="dark")
        expect(page.locator("html")).to_have_css("color-scheme", "light")
        expect(page.get_by_role("navigation")).to_be_hidden()


def test_a_center_that_is_killed_and_comes_back_is_told_on_the_open_page(
    browser: Browser, portal: Portal, cluster: Cluster
) -> None:
    with opened(browser, portal) as page:
        page.goto(f"{portal.url}/jobs")
        expect(page.locator("body[data-following]")).to_be_attached()
        cluster.kill_center()
        expect(page.locator("#away")).to_contain_text("The center cannot be reached")
        # What was known stays on the page.
        expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
        # The page about a change that failed does not load itself again: that would repeat the change.
        csrf = page.locator("body").get_attribute("data-csrf") or ""
        headers = {"Origin": portal.url, "Referer": f"{portal.url}/jobs/1", "Accept": "text/html"}
        answer = page.request.post(f"{portal.url}/jobs/1/hold", form={"csrf": csrf}, headers=headers)
        assert "It is not known whether the change was made" in answer.text()
        assert 'href="/jobs/1"' in answer.text()
        assert 'id="page-failed"' not in answer.text()
        cluster.start_center()
        expect(page.locator("#away")).to_be_hidden()
        with cluster.client() as client:
            client.submit([{"name": "after-the-crash", "command": "true"}])
        expect(page.get_by_role("link", name="after-the-crash")).to_be_visible()


def test_the_overview_of_failed_jobs_changes_in_place(browser: Browser, portal: Portal, cluster: Cluster) -> None:
    """A heading of it once had the name by which pages that could not be made are known: they load themselves again."""
    with cluster.client() as client, opened(browser, portal) as page:
        page.evaluate("window.same = true")
        client.submit([{"name": "fails", "command": "exit 3"}])
        failed = page.get_by_role("region", name="Failed in the last 24 hours")
        expect(failed).to_contain_text("fails")
        client.submit([{"name": "fails-too", "command": "exit 3"}])
        expect(failed).to_contain_text("fails-too")
        assert page.evaluate("window.same")


def test_moments_are_those_of_the_time_zone_of_the_viewer(browser: Browser, portal: Portal, cluster: Cluster) -> None:
    with cluster.client() as client:
        job = client.submit([{"name": "zoned", "command": "true"}]).jobs[0].id
        submitted = client.job(job).submitted
    with opened(browser, portal, timezone_id="Asia/Tokyo") as page:
        page.goto(f"{portal.url}/jobs/{job}")
        shown = page.locator("dl.facts time").first
        there = datetime.fromtimestamp(submitted, ZoneInfo("Asia/Tokyo"))
        expect(shown).to_contain_text(f"{there:%H:%M:%S}")
        expect(shown).to_have_attribute("title", re.compile("Asia/Tokyo"))
        # The marks of an axis have the day where it begins, and seconds only where they are close.
        axis = "<svg class='timeline'><text data-step='21600' data-at='0'/><text data-step='21600' data-at='21600'/>"
        axis += "<text data-step='21600' data-at='64800'/></svg>"
        axis += "<svg class='timeline'><text data-step='5' data-at='5'/></svg>"
        page.evaluate("html => { document.getElementById('live').innerHTML = html; showTimes(document); }", axis)
        marks = ["01-01 09:00", "15:00", "01-02 03:00", "01-01 09:00:05"]
        expect(page.locator("svg.timeline text")).to_have_text(marks)


@pytest.mark.long
def test_a_waiting_job_is_explained_in_full(browser: Browser, portal: Portal, cluster: Cluster) -> None:
    with cluster.client() as client:
        client.submit([{"name": "first", "command": "sleep 60", "resource": "<2, 1G>", "time_limit": "5min"}])
        job = client.submit([{"name": "second", "command": "true", "resource": "<2, 1G>"}]).jobs[0].id
        with opened(browser, portal) as page:
            page.goto(f"{portal.url}/jobs/{job}")
            why = page.get_by_role("region", name="Why it waits")
            expect(why).to_contain_text("Expected start")
            expect(why).to_contain_text("It would start now")
            # What was opened stays open when the page changes.
            page.get_by_text("Nearest nodes").click()
            page.get_by_role("button", name="Hold").click()
            expect(page.locator("h1")).to_contain_text("held")
            page.get_by_role("button", name="Release").click()
            expect(page.get_by_role("button", name="Hold")).to_be_visible()
        for found in client.jobs(state="running").jobs:
            client.cancel(found.id)
        client.cancel(job)


@pytest.mark.long
def test_a_viewer_may_look_and_not_change(browser: Browser, portal: Portal, cluster: Cluster) -> None:
    made = cluster.cress("token", "create", "look", "--role", "viewer")
    token = next(word for word in made.stdout.split() if word.startswith("cress_"))
    with cluster.client() as client:
        job = client.submit([{"name": "of-the-owner", "command": "sleep 60"}]).jobs[0].id
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{portal.url}/jobs/{job}")
        page.get_by_label("Token").fill("cress_wrong_token")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("h1")).to_contain_text("of-the-owner")
        expect(page.get_by_role("button", name="Cancel job")).to_have_count(0)
        page.goto(f"{portal.url}/submit")
        expect(page.get_by_role("button", name="Submit")).to_be_disabled()
        # Whoever sends the form all the same is refused by the center.
        csrf = page.locator("body").get_attribute("data-csrf")
        answer = page.request.post(
            f"{portal.url}/jobs/{job}/cancel", form={"csrf": csrf or ""}, headers={"Origin": portal.url}
        )
        assert answer.status in (403, 409), answer.status
        assert client.job(job).state != "cancelled"
        page.get_by_role("button", name="Sign out").click()
        page.goto(f"{portal.url}/jobs")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        context.close()
        client.cancel(job)


@pytest.mark.long
def test_a_node_is_drained_and_comes_back(browser: Browser, portal: Portal) -> None:
    with opened(browser, portal) as page:
        page.goto(f"{portal.url}/nodes")
        page.locator("#map").focus()
        expect(page.locator("#map-tip")).to_contain_text("n1")
        # What has changed since the version that the page has is drawn into the rest.
        change = {"since": "1", "version": "2", "shares": [[0, 77]], "running": [[0, 5]], "states": {"0": "cordoned"}}
        page.route("**/map?*", lambda route: route.fulfill(json=change))
        page.evaluate("document.dispatchEvent(new Event('refreshed'))")
        expect(page.locator("#map-tip")).to_have_text("n1: 77 %, cordoned, 5 tasks")
        page.unroute("**/map?*")
        # Once no node is left, no cell is.
        empty: dict[str, object] = {"names": [], "shares": [], "running": [], "states": {}, "racks": [], "parts": []}
        page.route("**/map?*", lambda route: route.fulfill(json=empty))
        page.evaluate("document.dispatchEvent(new Event('refreshed'))")
        expect(page.locator("#map")).to_have_attribute("data-drawn", "0")
        expect(page.locator("#map-tip")).to_have_text("")
        page.keyboard.press("Enter")
        page.unroute("**/map?*")
        page.evaluate("document.dispatchEvent(new Event('refreshed'))")
        expect(page.locator("#map-tip")).to_contain_text("n1")
        page.keyboard.press("Enter")
        page.wait_for_url("**/nodes/n1")
        # What is typed stays when the page changes, also after the field was left.
        page.get_by_label("Reason").fill("a new disk")
        page.locator("h1").click()
        page.evaluate("refresh()")
        assert page.get_by_label("Reason").input_value() == "a new disk"
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("region", name="If n1 were drained")).to_contain_text(
            "No running task would be stopped"
        )
        expect(page.locator("h1 .badge")).to_have_text("up")
        page.get_by_role("button", name="Drain n1").click()
        expect(page.locator("h1 .badge")).to_have_text("drained")
        page.goto(f"{portal.url}/")
        expect(page.get_by_role("region", name="Needs a person")).to_contain_text("drained: n1")
        page.goto(f"{portal.url}/nodes/n1")
        page.get_by_role("button", name="Uncordon").click()
        expect(page.locator("h1 .badge")).to_have_text("up")
        page.goto(f"{portal.url}/nodes?where=Memory+%3E%3E+8G")
        expect(page.get_by_role("alert")).to_be_visible()


def fill(client: Client, cluster: Cluster, scheme: str) -> list[int]:
    """Give each page something to show; return a running job, a waiting one, and one of each kind of family."""
    kinds: list[dict[str, object]] = [
        {"name": "runs", "command": "sleep 600", "resource": "<1, 64M>", "time_limit": "20min"},
        {"name": "waits", "command": "true", "resource": "<2, 1G>", "time_limit": "20min", "deadline": "1h"},
        {"name": f"serves-{scheme}", "type": "service", "command": "sleep 600", "resource": "<100m, 16M>", "tasks": 2},
        {"name": "flows", "type": "dag", "steps": {"a": {"command": "true"}, "b": {"command": "true", "after": ["a"]}}},
        {"name": f"nightly-{scheme}", "type": "cron", "when": "0 3 * * *", "command": "true"},
    ]
    jobs = [client.submit([kind]).jobs[0].id for kind in kinds]
    wait_until(lambda: client.job(jobs[0]).state == "running", "a running task")
    client.request_leases({"workload": "spark", "count": 1, "resource": "<100m, 16M>", "group": "default"})
    hours = 2 if scheme == "light" else 6
    for words in (
        ("reserve", f"exam-{scheme}", "--group", "default", "--nodes", "n1", "--from", f"+{hours}h", "--for", "1h"),
        ("reserve", f"patch-{scheme}", "--nodes", "n1", "--from", f"+{hours + 2}h", "--for", "1h"),
        ("token", "create", f"shown-{scheme}"),
    ):
        done = cluster.cress(*words)
        assert done.returncode == 0, done
    return jobs


# Colours do not depend on the size: in the dark theme one size is enough.
@pytest.mark.long
@pytest.mark.parametrize(("scheme", "checked"), [("light", (1280, 390)), ("dark", (1280,))])
def test_no_serious_violation_of_accessibility_and_no_page_is_too_wide(
    browser: Browser, portal: Portal, cluster: Cluster, scheme: str, checked: tuple[int, ...]
) -> None:
    with cluster.client() as client:
        job = client.submit([{"name": "shown", "command": "echo shown", "tasks": 3}]).jobs[0].id
        client.job(job, wait=30)
        more = fill(client, cluster, scheme)
        try:
            found: list[str] = []
            paths = (*PAGES, *(f"/jobs/{id}" for id in (job, *more)), f"/jobs/{job}/log", f"/jobs/{more[0]}/terminal")
            with opened(browser, portal, color_scheme=scheme, bypass_csp=True) as page:
                for path in paths:
                    found += violations(page, portal.url, path, checked)
            assert not found
        finally:
            for id in more:
                client.cancel(id)
            for lease in client.leases().leases:
                client.release_lease(lease.id)


def violations(page: Page, url: str, path: str, checked: tuple[int, ...]) -> list[str]:
    """What is wrong with a page: it is wider than the window, or axe-core finds something serious."""
    found = []
    page.goto(url + path)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{path}: wider than {width}")
        if width in checked:
            answer = Axe().run(page).response
            assert answer["passes"], "axe-core ran"
            found += [f"{path}: {one['id']}" for one in answer["violations"] if one["impact"] in SERIOUS]
    return found


SERIOUS = ("serious", "critical")
