"""Takes the pictures of the portal in docs/images, in a small cluster with some work.

python -m tools.portal_pictures            # the pictures of the documentation
python -m tools.portal_pictures DIR        # all pages, in three sizes and both themes, to look at

It needs chromium (`make packages`). Everything runs in a temporary folder; it takes some two minutes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from cress.client import Client, connect

IMAGES = Path(__file__).parents[1] / "docs" / "images"
CHROMIUM = "/usr/bin/chromium"
SIZES = {"wide": (1280, 800), "tablet": (820, 1180), "phone": (390, 844)}
THEMES = ("light", "dark")
# Seconds for which the cluster works before the pictures, so that there is a past.
PAST = 100
GROUPS = """
Name: physics
ResourceQuota: 12
Users: *

Name: lab
Parent: physics
ResourceQuota: 8
Users: *

Name: theory
Parent: physics
ResourceQuota: 4
Users: *

Name: biology
ResourceQuota: 8
Users: *
"""
DAG = {
    "name": "pipeline",
    "type": "dag",
    "group": "biology",
    "steps": {
        "load": {"command": "sleep 20", "resource": "<1, 512M>"},
        "clean": {"command": "sleep 1000", "resource": "<1, 512M>", "after": ["load"]},
        "check": {"command": "sleep 10", "resource": "<1, 512M>", "after": ["load"]},
        "report": {"command": "echo done", "after": ["clean", "check"]},
        "alarm": {"command": "echo alarm", "after": {"load": "failed"}},
    },
}
JOBS = (
    {"name": "lattice", "group": "theory", "command": "sleep 60", "tasks": 240, "resource": "<1, 1G>"},
    {
        "name": "detector",
        "group": "lab",
        "command": "sleep 1000",
        "tasks": 5,
        "resource": "<2, 2G>",
        "time_limit": "1h",
    },
    {"name": "align", "group": "biology", "command": "sleep 90", "tasks": 12, "resource": "<1, 1536M>"},
    {"name": "train", "group": "lab", "command": "sleep 100", "resource": "<4, 7G>", "tasks": 4, "time_limit": "2h"},
    {"name": "etl", "group": "biology", "command": "echo 'no space left' >&2; exit 3", "retries": 0},
    {
        "name": "noise",
        "group": "biology",
        "command": "for i in $(seq 2000); do echo line $i; done; date > result.txt; sleep 900",
    },
    {"name": "web", "type": "service", "command": "sleep 10000", "tasks": 2, "resource": "<0.1, 100M>"},
    {"name": "nightly", "type": "cron", "when": "0 3 * * *", "command": "true"},
)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[tuple[Client, str]]:
    """Yield a client of a cluster with work, and a link of its portal."""
    data = folder / "data"
    (folder / "Group.conf").write_text(GROUPS.lstrip())
    words = ["up", "--data", str(data), "--executors", "8", "--node-resource", "<4, 8G>", "--port", "0"]
    words += ["--racks", "r1,r1,r1,r1,r2,r2,r2,r2", "--groups", str(folder / "Group.conf")]
    with (folder / "said").open("wb") as said:
        up = subprocess.Popen([sys.executable, "-m", "cress", *words], stdout=said, stderr=said, env={**os.environ})
    try:
        while "/enter/" not in (folder / "said").read_text():
            assert up.poll() is None, (folder / "said").read_text()
            time.sleep(0.2)
        client = connect(data)
        while client.state().nodes_up < 8:
            time.sleep(0.2)
        for job in (*JOBS, DAG):
            client.submit([job])
        link = next(word for word in (folder / "said").read_text().split() if "/enter/" in word)
        yield client, link
    finally:
        up.terminate()
        up.wait()


def taken(page: Page, url: str, path: str, target: Path, *, whole: bool = False) -> None:
    """Take a picture of a page once it is drawn."""
    page.goto(url + path)
    page.wait_for_timeout(1500)
    page.screenshot(path=target, full_page=whole)
    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    if wide:
        print(f"{target.name}: the page is wider than its window")


def main() -> None:
    """Take the pictures."""
    with (
        tempfile.TemporaryDirectory(prefix="pictures-") as temporary,
        sync_playwright() as playwright,
        cluster(Path(temporary)) as (client, link),
    ):
        time.sleep(PAST)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        first = browser.new_page()
        first.goto(link)
        first.wait_for_url("**/")
        url, cookies = first.url.rstrip("/"), first.context.cookies()
        waiting = next(job.id for job in client.jobs(state="waiting").jobs if job.name == "train")
        if len(sys.argv) > 1:
            everything(browser, url, cookies, client, Path(sys.argv[1]))
        else:
            for name, theme, path in (
                ("portal-overview", "light", "/?whole=1"),
                ("portal-job", "dark", f"/jobs/{waiting}?whole=1"),
            ):
                page = opened(browser, cookies, theme, SIZES["wide"])
                taken(page, url, path, IMAGES / f"{name}.png")
        browser.close()


def opened(browser: Browser, cookies: Any, theme: Any, size: tuple[int, int]) -> Page:
    """Return a page that is signed in."""
    context = browser.new_context(color_scheme=theme, viewport={"width": size[0], "height": size[1]})
    context.add_cookies(cookies)
    return context.new_page()


def everything(browser: Browser, url: str, cookies: Any, client: Client, folder: Path) -> None:
    """Take a picture of every page in all sizes and themes."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = {job.name: job.id for job in client.jobs(limit=50).jobs}
    paths = {
        "overview": "/?whole=1",
        "jobs": "/jobs",
        "nodes": "/nodes",
        "node": f"/nodes/{client.nodes()[0].name}",
        "groups": "/groups",
        "group": "/groups/lab",
        "timeline": "/timeline",
        "events": "/events",
        "submit": "/submit",
        "what-if": "/what-if",
        "usage": "/usage",
        "efficiency": "/efficiency",
        "reservations": "/reservations",
        "names": "/names",
        "leases": "/leases",
        "licences": "/licences",
        "reports": "/reports",
        "access": "/access",
        "audit": "/audit",
        **{f"job-{name}": f"/jobs/{number}?whole=1" for name, number in ids.items() if "." not in name},
        "log": f"/jobs/{ids['noise']}/log",
        "terminal": f"/jobs/{ids['noise']}/terminal?task=0",
    }
    for theme in THEMES:
        for size, area in SIZES.items():
            page = opened(browser, cookies, theme, area)
            for name, path in paths.items():
                taken(page, url, path, folder / f"{name}-{size}-{theme}.png", whole=True)
            page.context.close()


if __name__ == "__main__":
    main()
