"""A terminal in a task, in a real browser: typing, Ctrl-C, the size, its end; and who may not open one."""

from __future__ import annotations

import json
import re
from contextlib import closing, suppress

import pytest
from playwright.sync_api import Browser, Page, expect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.portal.running import Portal, csrf_of, opened
from tests.system.cluster import Cluster, wait_until


def running(cluster: Cluster, name: str = "shell") -> int:
    """A job whose task runs. Its shells read no start files of this machine's user, which may take long or wait."""
    keys = {"command": "sleep 600", "resource": "<1, 64M>", "environment": {"HOME": "/"}}
    with cluster.client() as client:
        job = client.submit([{"name": name, **keys}]).jobs[0].id
        wait_until(lambda: client.job(job).state == "running", "the task")
    return job


def typed(page: Page, text: str) -> None:
    page.locator(".xterm-helper-textarea").focus()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_a_terminal_in_a_task(browser: Browser, portal: Portal, cluster: Cluster) -> None:
    job = running(cluster)
    with opened(browser, portal, viewport={"width": 1280, "height": 800}) as page:
        page.goto(f"{portal.url}/jobs/{job}")
        page.get_by_role("link", name="Terminal", exact=True).click()
        screen = page.locator(".xterm-rows")
        expect(page.locator("#terminal-state")).to_have_text("connected")
        # What is typed before its prompt a shell may discard.
        expect(screen).to_contain_text(re.compile("[#$]"))
        typed(page, "echo $((6*7)) $CRESS_JOB_ID")
        expect(screen).to_contain_text(f"42 {job}")
        # Ctrl-C reaches the program, not the page.
        # A shell that has not yet begun the program ignores it; so the program says that it runs.
        typed(page, "sh -c 'echo be''gun; exec sleep 1000'")
        expect(screen).to_contain_text("begun")
        page.keyboard.press("Control+c")
        expect(screen).to_contain_text(re.compile(r"\^C.*[#$]"))
        typed(page, "echo interrupted-$?")
        expect(screen).to_contain_text("interrupted-130")
        # The program learns the size, also when it changes.
        page.set_viewport_size({"width": 700, "height": 800})
        typed(page, "until stty size | grep ' 7'; do sleep 0.1; done")
        expect(screen).to_contain_text(re.compile(r"done\s*[0-9]+ 7"))
        typed(page, "exit 3")
        expect(page.locator("#terminal-state")).to_contain_text("ended with code 3")
    with cluster.client() as client:
        client.cancel(job)


def test_a_terminal_is_only_for_pages_of_this_portal_and_this_session(portal: Portal, cluster: Cluster) -> None:
    job = running(cluster, "guarded")
    with closing(portal.signed_in()) as owner:
        cookie = "; ".join(f"{name}={value}" for name, value in owner.cookies.items())
        url = f"ws{portal.url.removeprefix('http')}/jobs/{job}/terminal/socket"
        for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
            with pytest.raises(InvalidStatus), connect(url, additional_headers={"Cookie": cookie, **headers}):
                pass
        own = {"Origin": portal.url}
        start = {"csrf": csrf_of(owner), "size": [24, 80], "command": "cat"}

        def said(start: object, **more: str) -> str:
            with connect(url, additional_headers=own | more) as socket:
                socket.send(json.dumps(start))
                return str(json.loads(socket.recv(timeout=30))["why"])

        assert "earlier session" in said(start)
        assert "earlier session" in said(start | {"csrf": "guessed"}, Cookie=cookie)
        assert "not the page" in said({"size": [24, 80]}, Cookie=cookie)
        # A terminal ends with its session.
        with connect(url, additional_headers=own | {"Cookie": cookie}) as socket:
            socket.send(json.dumps(start))
            socket.send(b"hello\r")
            seen = b""
            while b"hello\r\nhello" not in seen:
                data = socket.recv(timeout=30)
                assert isinstance(data, bytes), data
                seen += data
            owner.post("/logout", data={"csrf": start["csrf"]})
            with suppress(ConnectionClosed):
                while True:
                    socket.recv(timeout=30)
    with cluster.client() as client:
        client.cancel(job)


@pytest.mark.long
def test_a_terminal_says_why_it_cannot_open_and_that_its_task_has_ended(
    browser: Browser, portal: Portal, cluster: Cluster
) -> None:
    job = running(cluster, "ending")
    with opened(browser, portal) as page:
        page.goto(f"{portal.url}/jobs/{job}/terminal")
        expect(page.locator("#terminal-state")).to_have_text("connected")
        page.fill("#terminal-command", "no-such-program")
        page.get_by_role("button", name="Start").click()
        expect(page.locator("#terminal-state")).to_contain_text("no-such-program")
        page.fill("#terminal-command", "yes")
        page.get_by_role("button", name="Start").click()
        expect(page.locator(".xterm-rows")).to_contain_text("y")
        with cluster.client() as client:
            client.cancel(job)
        expect(page.locator("#terminal[data-over]")).to_be_attached()
        page.get_by_role("button", name="Start").click()
        expect(page.locator("#terminal-state")).to_contain_text(str(job))


OPENS = """path => new Promise((done) => {
  const socket = new WebSocket(location.origin.replace("http", "ws") + path);
  const csrf = document.body.dataset.csrf;
  socket.onopen = () => socket.send(JSON.stringify({ csrf, size: [24, 80], command: "" }));
  socket.onmessage = (event) => { if (typeof event.data === "string") done(event.data); };
})"""


@pytest.mark.long
def test_a_viewer_gets_no_terminal(browser: Browser, portal: Portal, cluster: Cluster) -> None:
    job = running(cluster, "of-the-owner")
    made = cluster.cress("token", "create", "watcher", "--role", "viewer")
    token = next(word for word in made.stdout.split() if word.startswith("cress_"))
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{portal.url}/jobs/{job}/terminal")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Only")).to_be_visible()
    expect(page.get_by_role("button", name="Start")).to_have_count(0)
    # A script that opens one all the same is told why not.
    said = page.evaluate(OPENS, f"/jobs/{job}/terminal/socket?task=0")
    assert json.loads(said)["code"] is None, said
    assert "may not" in said
    context.close()
    with cluster.client() as client:
        client.cancel(job)
