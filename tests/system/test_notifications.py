"""Notifications of jobs and groups, from the job file to a web server and a mail server."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.protocol.cluster_views import EventView
from tests.center.notification_receivers import MailReceiver, WebReceiver
from tests.system.cluster import Cluster, wait_until


@pytest.fixture
def web() -> Iterator[WebReceiver]:
    with WebReceiver() as receiver:
        yield receiver


@pytest.fixture
def mail() -> Iterator[MailReceiver]:
    with MailReceiver() as receiver:
        yield receiver


def test_addresses_of_jobs_and_groups_are_told(
    bare: Cluster, web: WebReceiver, mail: MailReceiver, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("secret\n")
    bare.file("groups.conf", f"Name: lab\nResourceQuota: 4\nNotify: {web.url}?group\n")
    options = "--notify-host", "127.0.0.1", "--notify-host", "any", "--notify-key", str(tmp_path / "key")
    bare.start_center(
        *options, "--groups", str(bare.folder / "groups.conf"), "--notify-smtp", mail.url, "--notify-from", "c@h.org"
    )
    bare.start_executor()
    bare.file(
        "job.yaml",
        f"""
name: etl
group: lab
command: "exit 3"
notify:
  - {web.url}
  - {{to: "{web.url}?start", on: started}}
  - {{to: "mailto:ann@example.org", on: [failed, late]}}
  - {{to: "mailto:nobody@example.org", on: ended}}
  - {{to: "{web.url}?late", on: late}}
""",
    )
    assert bare.cress("submit", "job.yaml", "--wait").returncode == 1
    wait_until(lambda: len(web.told) == 3 and mail.mails, "three requests and a mail")
    assert sorted((told["occasion"], told.get("state", "")) for told in web.told) == [
        ("ended", "failed"),
        ("failed", "failed"),
        ("started", ""),
    ]
    first = web.told[0]
    assert (first["job"], first["name"], first["group"]) == (1, "etl", "lab")
    assert len({told["id"] for told in web.told}) == 3
    for body, headers in zip(web.bodies, web.headers, strict=True):
        at, digest = (part.partition("=")[2] for part in headers["Cress-Signature"].split(","))
        assert digest == hmac.new(b"secret", f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    letter = mail.mails[0]
    assert (letter["To"], letter["From"]) == ("ann@example.org", "c@h.org")
    assert letter["Subject"].endswith("job 1 (etl) has ended: failed")
    assert "exit code 3" in letter.get_content()
    told = "nobody@example.org was refused"
    events = wait_until(lambda: _events(bare, "notification.failed"), told)
    assert [(event.job, event.group) for event in events] == [(1, "lab")]
    assert [event.text for event in events] == [
        "example.org was not told about " + str(letter["Subject"]) + ": the mail server answered 550 no such mailbox"
    ]


def _events(cluster: Cluster, kind: str) -> list[EventView]:
    with cluster.client() as client:
        return [event for event in client.events(after=0, follow=False) if event.kind == kind]
