"""The portal without a browser: who gets in, what other pages may not do, and what answers allow."""

from __future__ import annotations

import asyncio
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import httpx
import pytest

from cress.cli.tables import STATES
from cress.client.found import FoundCenter
from cress.model.errors import InputError
from cress.portal.dimensions import measured
from cress.portal.guard import PortalGuard
from cress.portal.pages.overview import reasons_of
from cress.portal.pages.terminal import check_room
from cress.portal.sessions import CODE_SECONDS, SESSION_SECONDS, BrowserSessions
from cress.portal.settings import PortalSettings
from cress.portal.texts import MOST_OF_TEXT, cut, moment, some, thousandths, tone, variables
from cress.portal.web import HERE, environment
from cress.protocol.job_views import JobView, TaskCounts
from tests import waiting
from tests.portal.running import Portal, csrf_of
from tests.system.cluster import Cluster

SELF = {"Sec-Fetch-Site": "same-origin"}


def job(id: int, reason: str, waiting: int = 1) -> JobView:
    return JobView(
        id=id,
        name="",
        group="a",
        user="u",
        type="batch",
        state="waiting",
        tasks=TaskCounts(total=waiting, waiting=waiting),
        priority=0,
        gang=False,
        resource={},
        time_limit=None,
        submitted=0.0,
        reason=reason,
    )


# --- sessions --------------------------------------------------------------------------------------------------------


def test_a_link_works_once(portal: Portal) -> None:
    link = portal.new_link()
    with httpx.Client(trust_env=False) as first, httpx.Client(trust_env=False) as second:
        answer = first.get(link)
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict"))
        assert first.get(f"{portal.url}/jobs").status_code == 200
        assert second.get(link).status_code == 401
        assert second.get(f"{portal.url}/jobs").status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "sent_from", "leads_to"),
    [
        ("GET", "/jobs?state=running&user=eve", "", "/jobs?state=running&amp;user=eve"),
        ("POST", "/jobs/7/cancel", "/jobs/7?tasks=failed", "/jobs/7?tasks=failed"),
        # The look at a change stands at an address that only takes forms.
        ("POST", "/groups/default/change", "/groups/default/preview", "/groups/default"),
        ("POST", "/jobs/7/cancel", "", "/"),
        ("POST", "/jobs/7/cancel", "//elsewhere/jobs", "/"),
    ],
)
def test_signing_in_again_leads_to_the_page_that_was_shown(
    portal: Portal, method: str, path: str, sent_from: str, leads_to: str
) -> None:
    headers = {"Accept": "text/html"} | ({"Referer": portal.url + sent_from} if sent_from else {})
    answer = httpx.request(method, portal.url + path, headers=headers, trust_env=False)
    assert answer.status_code == 401
    assert f'name="next" value="{leads_to}"' in answer.text


def test_the_secret_for_links_is_for_the_owner_alone(portal: Portal, cluster: Cluster) -> None:
    assert stat.S_IMODE((cluster.data / "portal.json").stat().st_mode) == 0o600
    answer = httpx.post(f"{portal.url}/codes", headers={"X-Portal-Secret": "guessed"}, trust_env=False)
    assert answer.status_code == 403


def test_codes_and_sessions_end_with_time(tmp_path: Path) -> None:
    now = [0.0]
    sessions = BrowserSessions(PortalSettings(folder=tmp_path, read_jobs=lambda _: ()), lambda: now[0])
    code = sessions.new_code()
    now[0] = CODE_SECONDS
    assert sessions.enter(code) is None
    sessions._own = object()  # type: ignore[assignment]
    session = sessions.enter(sessions.new_code())
    assert session is not None
    now[0] += SESSION_SECONDS - 1
    assert sessions.find(session.id) is session
    closed: list[int] = []
    session.closers.add(lambda: closed.append(1))
    now[0] += SESSION_SECONDS + 1
    assert sessions.find(session.id) is None
    assert closed == [1], "a terminal outlives its session"


class Center:
    """A center with a provider; it knows a token for each user, and keeps ``done``: what it was asked to end."""

    done: ClassVar[list[str]] = []

    def __init__(self, token: str = "") -> None:
        self._user = token.removeprefix("cress_").partition(".")[0]

    async def ask(self, call: Any) -> Any:
        if call.path.startswith("/v1/tokens/"):
            await asyncio.sleep(0.01)
            self.done.append(call.path)
        return SimpleNamespace(user=self._user, issuer="http://127.0.0.1:1", client_id="c", scope="openid")

    async def close(self) -> None:
        self.done.append(f"close {self._user}")


@pytest.fixture
def center(monkeypatch: pytest.MonkeyPatch) -> type[Center]:
    """The center of all sessions."""
    monkeypatch.setattr("cress.portal.sessions.found", lambda *_: FoundCenter("https://127.0.0.1:1", "", "", None))
    monkeypatch.setattr("cress.portal.sessions.client_of", lambda place: Center(place.token))
    Center.done.clear()
    return Center


@pytest.mark.parametrize("stop", [False, True])
def test_sessions_whose_browser_never_comes_back_end_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, center: type[Center], stop: bool
) -> None:
    monkeypatch.setattr("cress.portal.sessions.LOOK", 0.001)
    now = [0.0]

    async def story() -> None:
        sessions = BrowserSessions(PortalSettings(folder=tmp_path, read_jobs=lambda _: ()), lambda: now[0])
        async with sessions.running():
            gone = await sessions.sign_in("cress_ann.1", "login-1")
            closed = asyncio.Event()
            gone.closers.add(closed.set)
            now[0] = SESSION_SECONDS / 2
            kept = await sessions.sign_in("cress_bob.1", "login-2")
            now[0] = SESSION_SECONDS + 1
            await asyncio.wait_for(closed.wait(), waiting.PATIENCE)
            if not stop:
                await asyncio.gather(*sessions._leaving)
                assert center.done == ["/v1/tokens/login-1", "close ann"]
            assert sessions.find(kept.id) is kept
        # A stop of the portal waits for what has begun.
        assert center.done == ["/v1/tokens/login-1", "close ann", "close bob"]

    asyncio.run(story())


@pytest.mark.usefixtures("center")
def test_one_user_takes_no_session_or_sign_in_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.portal.sessions.MOST_SESSIONS", 5)
    monkeypatch.setattr("cress.portal.sign_ins.MOST", 5)
    monkeypatch.setattr("cress.portal.sign_ins.DeviceFlow", Flow)

    async def crowded() -> None:
        sessions = BrowserSessions(PortalSettings(folder=tmp_path, read_jobs=lambda _: ()))
        own = await sessions.sign_in("cress_ann.1")
        others = [await sessions.sign_in("cress_bob.1") for _ in range(20)]
        assert sessions.find(own.id) is own
        # The one that was used least gives way, with all that it has open.
        assert [sessions.find(one.id) is one for one in others] == [False] * 16 + [True] * 4
        sign_ins = sessions.sign_ins
        first = await sign_ins.begin("/", "192.0.2.1")
        later = [await sign_ins.begin("/", "192.0.2.2") for _ in range(20)]
        assert sign_ins.find(first.id) is first
        assert [sign_ins.find(one.id) is one for one in later] == [False] * 16 + [True] * 4
        await sessions.close()

    asyncio.run(crowded())
    users = ["bob"] * 9
    check_room(users, "bob")
    with pytest.raises(InputError, match="10 of your terminals"):
        check_room([*users, "bob"], "bob")
    check_room([*users, "bob"], "ann")


class Flow:
    """A device flow at whose provider nobody enters the code."""

    def __init__(self, *_: Any) -> None:
        self._pause = _[-1]

    def begin(self) -> Any:
        return SimpleNamespace()

    def wait(self, _: Any) -> str:
        self._pause(60)
        return ""


# --- other pages and hosts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        (SELF, 403),  # without the secret of the session
    ],
)
def test_a_change_from_elsewhere_is_refused(owner: httpx.Client, headers: dict[str, str], status: int) -> None:
    secret = "guessed" if headers is SELF else csrf_of(owner)
    answer = owner.post("/jobs/1/cancel", headers=headers, data={"csrf": secret})
    assert answer.status_code == status, answer.text


def test_answers_allow_only_the_portal_itself(owner: httpx.Client) -> None:
    answer = owner.get("/jobs")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    # Nothing in the page would need more than the policy allows.
    assert not re.search(r"\sstyle=|\son[a-z]+=|<style|<script(?! src| type=\"application/json)", answer.text)
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text):
        kept = owner.get(address)
        assert kept.status_code == 200
        assert "immutable" in kept.headers["cache-control"]


def test_no_template_names_another_host() -> None:
    folder = Path(environment().loader.searchpath[0])  # type: ignore[union-attr]
    for path in [*folder.iterdir(), *(folder.parent / "static").glob("*.[jc]s*")]:
        if "min" not in path.name:
            assert not re.search(r"https?://(?!www\.w3\.org)", path.read_text()), path.name


# --- changes and errors ----------------------------------------------------------------------------------------------


def test_a_job_is_checked_submitted_and_cancelled(owner: httpx.Client, cluster: Cluster) -> None:
    with cluster.client() as center:
        secret = {"csrf": csrf_of(owner)}
        bad = owner.post("/submit/check", data=secret | {"text": "- command: [a\n"}).json()
        assert not bad["good"]
        assert bad["mistakes"][0]["line"] == 2
        bad = owner.post("/submit/check", data=secret | {"text": "command: x\ntasks: many\n"}).json()
        assert [(one["line"], one["field"]) for one in bad["mistakes"]] == [(2, "tasks")]
        before = center.state().jobs_waiting
        good = owner.post("/submit/check", data=secret | {"text": "command: sleep 60\nresource: <2, 1G>\n"})
        assert good.json()["good"]
        assert center.state().jobs_waiting == before
        form = secret | {"text": "name: twice\ncommand: sleep 60\n", "key": "one-click"}
        first, second = (owner.post("/submit", data=form).headers["location"] for _ in range(2))
        assert first == second
        number = int(first.rpartition("/")[2])
        assert owner.post(f"{first}/cancel", data=secret).status_code == 303
        # A page that reads itself again meanwhile does not take the message from the next one.
        assert "is being cancelled" not in owner.get(first, headers={"X-Refresh": "1"}).text
        assert "is being cancelled" in owner.get(first).text
        assert center.job(number, wait=30).state == "cancelled"


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/jobs/999999", 404, "999999"),
        ("/jobs/x", 422, "is not a number"),
        ("/jobs?before=x", 422, "is not a number"),
        ("/jobs?state=odd", 422, "odd"),
        ("/nodes/nowhere", 404, "nowhere"),
        ("/no-such-page", 404, "the portal has no page /no-such-page"),
        # An address that only takes forms leads to the page that has the form.
        ("/nodes/n1/cordon", 200, "About this node"),
        ("/jobs/999999/log?task=x", 404, "999999"),
        # What is no number stands for the beginning.
        ("/nodes?from=\u00b2", 200, "n1"),
        (f"/timeline?from={'9' * 5000}", 200, "n1"),
    ],
)
def test_errors_are_pages_that_say_what_is_wrong(owner: httpx.Client, path: str, status: int, says: str) -> None:
    answer = owner.get(path, headers={"Accept": "text/html"}, follow_redirects=True)
    assert (answer.status_code, says in answer.text) == (status, True), answer.text


def test_every_page_escapes_what_users_wrote(owner: httpx.Client, cluster: Cluster) -> None:
    hostile = "<script>alert(1)</script>"
    with cluster.client() as center:
        id = center.submit([{"command": ["echo", hostile], "environment": {"NOTE": hostile}}]).jobs[0].id
        for path in (f"/jobs/{id}", f"/jobs?name={hostile}", f"/nodes?name={hostile}", f"/events?node={hostile}"):
            assert hostile not in owner.get(path).text, path


def test_reports_are_compared_and_shown_in_a_sandbox_to_operators_only(
    portal: Portal, owner: httpx.Client, cluster: Cluster
) -> None:
    empty = owner.get("/reports")
    assert f"cress replay --groups new.conf --out {cluster.data}/reports/new-groups" in empty.text
    log = cluster.folder / "one.swf"
    log.write_text("; MaxProcs: 4\n1 0 -1 10 1 -1 -1 1 20 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    out = cluster.data / "reports" / "first"
    done = cluster.cress("simulate", str(log), "--policy", "FIFO", "--policy", "BackFill", "--out", str(out))
    assert done.returncode == 0, done.stderr
    (cluster.data / "reports" / "secret.txt").write_text("not a report")
    page = owner.get("/reports").text
    assert [text in page for text in ("first", "FIFO", "BackFill", "25.0 %", "name=first")] == [True] * 5
    whole = owner.get("/reports/whole?name=first")
    assert (whole.status_code, whole.text) == (200, (out / "report.html").read_text())
    assert whole.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    for name in ("", "..", "../..", "secret.txt", str(out), "first/FIFO"):
        assert owner.get("/reports/whole", params={"name": name}).status_code == 422, name
    made = cluster.cress("token", "create", "plain", "--role", "user").stdout
    with httpx.Client(base_url=portal.url, trust_env=False) as user:
        token = next(word for word in made.split() if word.startswith("cress_"))
        assert user.post("/login", data={"token": token}).status_code == 303
        assert [user.get(path).status_code for path in ("/reports", "/reports/whole?name=first")] == [403, 403]


# --- texts -----------------------------------------------------------------------------------------------------------


def test_reasons_that_differ_in_numbers_are_one() -> None:
    found = reasons_of(
        [job(1, "of 3 nodes 2 lack cpu"), job(2, "of 3 nodes 1 lack cpu", 9), job(3, "held"), job(4, "")]
    )
    assert [(one.jobs, one.tasks, one.first) for one in found] == [(2, 10, 1), (1, 1, 3)]


def test_amounts_of_large_clusters_are_shares() -> None:
    found = measured({"memory": "2500T", "gpu": "0"}, {"memory": "625T"})
    assert [(one.name, one.share) for one in found] == [("memory", 0.25), ("gpu", 0.0)]
    assert [(one.used, one.capacity) for one in measured({"memory": "96G"}, {"memory": "16872M"})] == [("16.5G", "96G")]


def test_every_moment_is_a_time_that_the_script_shows_in_the_zone_of_the_viewer() -> None:
    assert moment(0.0) == '<time datetime="1970-01-01T00:00:00+00:00" data-at="0.000">1970-01-01 00:00:00 UTC</time>'
    assert moment(None) == ""


def test_an_unknown_state_is_shown_as_a_failure() -> None:
    assert [tone(word) for word in ("running", "timed out", "lost", "away")] == ["run", "bad", "bad", "bad"]
    # What the command line does not show in red is no failure here either, such as a free device.
    assert {word for word in STATES if tone(word) == "bad"} == {word for word in STATES if STATES[word] == "red"}


def test_amounts_of_nothing_are_left_out() -> None:
    assert [some(amount) for amount in ("", "0", "<0, 0>", "0.5", "<0, 2G>")] == ["", "", "", "0.5", "<0, 2G>"]


def test_thousandths_of_a_device_are_per_cent() -> None:
    assert [thousandths(amount) for amount in (0, 300, 333, 1000)] == ["0 %", "30 %", "33.3 %", "100 %"]


def test_a_host_is_a_name_without_its_port() -> None:
    guard = PortalGuard(lambda *_: None, ["127.0.0.1"])  # type: ignore[arg-type]
    assert guard._refusal("GET", {"host": "127.0.0.1:80"}) == ""
    assert guard._refusal("GET", {"host": "127.0.0.1.evil.example"})
    assert guard._refusal("GET", {})


def test_characters_that_turn_text_around_are_written_out() -> None:
    template = environment().from_string("{{ text }} {{ text|e }} <b>{{ number }}</b>")
    shown = template.render(text="rm \u202egnp.x & \u05d0", number=3)
    assert shown == "rm \\u202egnp.x &amp; \u05d0 rm \\u202egnp.x &amp; \u05d0 <b>3</b>"


class Fields(HTMLParser):
    """The values and texts of a page as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name == "value"]

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def test_a_form_sends_what_it_was_given_back() -> None:
    text = 'echo "\u202e" & \\u202e </textarea>'
    parts = environment().from_string(
        "{% from 'parts.html' import post %}{{ post('/x', 1, '', fields=[('command', text)]) }}"
        "<textarea>{{ text|sent }}</textarea>"
    )
    found = Fields(parts.render(text=text)).found
    assert found.count(text) == 2
    # Every template takes this way.
    for name in environment().list_templates():
        page = (HERE / "templates" / name).read_text(encoding="utf-8")
        fields = re.findall(r' value="{{ (.*?) }}|<textarea[^>]*>{{ (.*?) }}', page)
        assert [field for field in fields if not "".join(field).endswith("|sent")] == [], name


def test_a_long_environment_is_cut() -> None:
    assert cut(variables({"A": "b c", "D": ""})) == "A='b c' D=''"
    assert len(cut(variables({"A": "x" * 100_000}))) < MOST_OF_TEXT + 5
