"""The portal of a large cluster in a real browser, beside a page of static text in the same run.

10,000 nodes (which join by inputs: ``nodes_by_input``), 5,000 running and 100,000 waiting jobs. ``BENCHMARK_PORTAL``
sets another number of nodes; the jobs are in proportion. Times by the clock mean little on a machine that others use:
each has its ratio to static text, and the processor time of center and portal.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

from benchmarks.live import CRESS
from benchmarks.result import Result
from cress.client import Client, connect

NODES = int(os.environ.get("BENCHMARK_PORTAL", "10000"))
RUNNING, WAITING, TOGETHER = NODES // 2, NODES * 10, 5_000
CHROMIUM = Path("/usr/bin/chromium")
# Seconds in which the center is measured, without open pages and with them; pages that are open.
SPAN, PAGES = float(os.environ.get("BENCHMARK_PORTAL_SPAN", "60")), 20
TIMES = 5
# Milliseconds for which a page is waited for.
PATIENCE = 240_000
ADDRESSES = ("/", "/jobs", "/jobs?state=waiting", "/nodes", "/groups", "/timeline", "/events", "/submit")
CLICKS = (
    ("/jobs", "tbody tr a"),
    ("/jobs", "nav a[href='/groups']"),
    ("/", "nav a[href='/nodes']"),
    ("/nodes", "td a"),
)
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# The moment of the click is kept for the next page, which knows when it was painted.
NOW = "performance.timeOrigin + performance.now()"
CLICK = f"addEventListener('click', () => sessionStorage.setItem('clicked', {NOW}), true)"
SINCE = f"performance.timeOrigin + {PAINT.replace('?', '')} - Number(sessionStorage.getItem('clicked'))"


def results() -> Iterator[Result]:
    """All figures, as they are measured."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = Path(tempfile.mkdtemp(prefix="cress-"))
    try:
        with _cluster(folder) as (center, client):
            yield from _measured(folder, center, client)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def _cluster(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Client]]:
    """Yield the process of a center with all nodes and jobs, and its client."""
    data = folder / "data"
    with (folder / "log").open("ab") as log:
        words = [sys.executable, "-P", "-m", "benchmarks.nodes_by_input", str(data), str(NODES)]
        center = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            client = _client(data, center)
            _until(lambda: client.state().nodes_up >= NODES)
            _submit(client)
            yield center, client
        finally:
            center.kill()
            center.wait()


def _client(data: Path, center: subprocess.Popen[bytes]) -> Client:
    while center.poll() is None:
        with contextlib.suppress(Exception):
            client = connect(data)
            client.state()
            return client
        time.sleep(0.1)
    raise SystemExit("the center did not start")


def _submit(client: Client) -> None:
    """Submit jobs that fill all nodes, two tasks each, then jobs that wait."""
    running = [{"name": f"run{i % 50}", "command": "true", "tasks": 2, "resource": "<8, 8G>", "time_limit": "1d"}
               for i in range(RUNNING)]  # fmt: skip
    waiting = [{"name": f"wait{i % 50}", "command": "true", "resource": "<4, 1G>", "time_limit": "1h"}
               for i in range(WAITING)]  # fmt: skip
    for first in range(0, RUNNING, TOGETHER):
        client.submit(running[first : first + TOGETHER])
    _until(lambda: client.state().tasks_running >= 2 * RUNNING)
    for first in range(0, WAITING, TOGETHER):
        client.submit(waiting[first : first + TOGETHER])
    _until(lambda: client.state().jobs_waiting >= WAITING)


def _until(look, patience: float = 600.0) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + patience
    while not look():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.5)


def _measured(folder: Path, center: subprocess.Popen[bytes], client: Client) -> Iterator[Result]:
    note = f"{NODES:,} nodes, {RUNNING:,} running, {WAITING:,} waiting jobs"
    with _portal(folder) as (portal, link), _static(folder) as static, sync_playwright() as playwright:
        path = {"executable_path": CHROMIUM} if CHROMIUM.exists() else {}
        browser = playwright.chromium.launch(args=["--no-sandbox"], **path)  # type: ignore[arg-type]
        try:
            page = browser.new_context().new_page()
            page.set_default_timeout(PATIENCE)
            page.add_init_script(CLICK)
            page.goto(link)
            page.wait_for_url("**/")
            url = link.partition("/enter/")[0]
            spent = _Spent(center, portal)
            base = _paint(page, f"{static}/one.html")
            yield Result("first paint of a page of static text", base, "ms", note=note)
            for address in ADDRESSES[:-1]:
                spent.begin()
                paint = _paint(page, url + address)
                told = f"{paint / base:.1f} × static text; {spent.told(TIMES)}"
                yield Result(f"first paint of {address}", paint, "ms", 2000, note=told)
            still = _click(page, f"{static}/one.html", "a")
            yield Result("click on a link of static text", still, "ms", note=note)
            for start, link_of in CLICKS:
                what = f"click on {link_of.replace('tbody tr a', 'a job').replace('td a', 'a node')} in {start}"
                spent.begin()
                click = _click(page, url + start, link_of)
                yield Result(what, click, "ms", 300, note=f"{click / still:.1f} × static text; {spent.told(2 * TIMES)}")
            quiet = _share(center, client)
            yield Result("the center's share of a core without pages", quiet, "cores", note="one submit a second")
            with _open(browser, page, url):
                busy = _share(center, client)
            yield Result(f"the same with {PAGES} open pages", busy, "cores", note="one submit a second")
            yield Result(f"what {PAGES} open pages cost the center", busy - quiet, "cores", 0.1)
        finally:
            browser.close()


def _paint(page: Page, address: str) -> float:
    """Return the first paint of a page in milliseconds, the median of some loads."""
    return statistics.median(_loaded(page, address) for _ in range(TIMES))


def _loaded(page: Page, address: str) -> float:
    _go(page, address)
    return _value(page, PAINT)


def _click(page: Page, start: str, link: str) -> float:
    """Return the milliseconds from a click to the paint of the page behind it, the median of some."""
    spent = []
    for _ in range(TIMES):
        _go(page, start)
        with page.expect_navigation(wait_until="load"):
            page.locator(link).first.click()
        spent.append(_value(page, SINCE))
    return statistics.median(spent)


def _go(page: Page, address: str) -> None:
    """Open a page; one that is just being left may break the first try off."""
    try:
        page.goto(address, wait_until="load")
    except Error:
        page.goto(address, wait_until="load")


def _value(page: Page, script: str) -> float:
    page.wait_for_function(f"() => {PAINT} !== undefined")
    return float(page.evaluate(script))


@contextlib.contextmanager
def _open(browser: Browser, page: Page, url: str) -> Iterator[None]:
    """Have pages open, of all kinds, in windows of their own, since a hidden tab asks nothing."""
    cookies = page.context.cookies()
    contexts = []
    for number in range(PAGES):
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        context.add_cookies(cookies)  # type: ignore[arg-type]
        contexts.append(context)
        context.new_page().goto(url + ADDRESSES[number % len(ADDRESSES)])
    yield
    for context in contexts:
        context.close()


def _share(center: subprocess.Popen[bytes], client: Client) -> float:
    """Return the part of a core that the center uses, while a job is submitted each second."""
    begin, before = time.monotonic(), _spent(center.pid)
    while time.monotonic() < begin + SPAN:
        client.submit([{"name": "beat", "command": "true", "resource": "<4, 1G>"}])
        time.sleep(1)
    return (_spent(center.pid) - before) / (time.monotonic() - begin)


class _Spent:
    """The processor time of center and portal for some pages."""

    def __init__(self, *processes: subprocess.Popen[bytes]) -> None:
        self._processes = processes
        self.begin()

    def begin(self) -> None:
        """Begin to measure."""
        self._before = [_spent(process.pid) for process in self._processes]

    def told(self, pages: int) -> str:
        """Return the processor time of one page in a sentence."""
        center, portal = (
            1000 * (_spent(process.pid) - before) / pages
            for process, before in zip(self._processes, self._before, strict=True)
        )
        return f"processor: center {center:.0f} ms, portal {portal:.0f} ms a page"


def _spent(pid: int) -> float:
    """Return the processor time of a process in seconds, with that of its forks that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _portal(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Yield the process of a portal and its link."""
    said = folder / "portal.log"
    with said.open("ab") as log:
        words = [*CRESS, "portal", "--data", str(folder / "data")]
        process = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        _until(lambda: "/enter/" in said.read_text())
        yield process, said.read_text().split()[-1]
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _static(folder: Path) -> Iterator[str]:
    """Yield the address of a server of two pages of text."""
    text = "<!doctype html><title>text</title><a href='two.html'>two</a>" + "<p>Lines of text.</p>" * 200
    for name in ("one.html", "two.html"):
        (folder / name).write_text(text)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
