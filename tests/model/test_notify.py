"""Addresses that are told about jobs, in job files and in Group.conf."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError
from cress.model.groups.conf import format_groups, parse_groups
from cress.model.jobfile.notify import notify
from cress.model.notify import OF_JOBS, Notify, Occasion
from cress.model.resources import Dimensions

HOOK = "https://hooks.example.org:8443/a?key=1"


@pytest.mark.parametrize(
    ("value", "right"),
    [
        (HOOK, (Notify(HOOK, OF_JOBS),)),
        (f" {HOOK} on failed, Start-Changed", (Notify(HOOK, (Occasion.FAILED, Occasion.START_CHANGED)),)),
        ("mailto:ann@example.org", (Notify("mailto:ann@example.org", OF_JOBS),)),
        ({"to": HOOK, "on": "started"}, (Notify(HOOK, (Occasion.STARTED,)),)),
        ([{"to": HOOK, "on": ["late", "late"]}], (Notify(HOOK, (Occasion.LATE,)),)),
        (["http://[::1]:80/", "http://h"], (Notify("http://[::1]:80/", OF_JOBS), Notify("http://h", OF_JOBS))),
    ],
)
def test_what_is_read(value: object, right: tuple[Notify, ...]) -> None:
    assert notify(value) == right


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("ann@example.org", "is not an address (mailto:ann@example.org)"),
        ("mailto:ann@example.org?cc=bob@example.org", "one mailbox"),
        ("mailto:ann", "is not an address"),
        ("ftp://h/x", "is not an address (https://HOST/PATH"),
        ("https://", "is not an address"),
        ("http://h:0/", "is not an address"),
        ("http://h:99999/", "is not an address"),
        ("http://ann:secret@h/", "may not contain a user or password"),
        ("http://h/\nX-Header: 1", "follows an address"),
        ("http://h/\tx", "is not an address"),
        (f"{HOOK} when failed", "'when' follows an address"),
        (f"{HOOK} on fail", "did you mean failed"),
        ({"to": HOOK, "on": []}, "on: it does not say what is told"),
        ({"on": "failed"}, "to is missing"),
        ({"to": HOOK, "at": "failed"}, "unknown key"),
        ([HOOK, HOOK], "is named twice"),
        ([f"http://h/{number}" for number in range(11)], "11 addresses are too many"),
        ("http://h/" + "x" * 2_000, "is too long"),
        (7, "7 is not an address"),
    ],
)
def test_what_is_refused(value: object, says: str) -> None:
    with pytest.raises(InputError) as refused:
        notify(value)
    assert says in str(refused.value)


def test_groups_have_addresses_in_their_file() -> None:
    text = f"Name: lab\nResourceQuota: 4\nNotify: {HOOK} | mailto:ops@example.org on started late\n"
    (group,) = parse_groups(text, dimensions=Dimensions()).groups
    assert group.notify == (
        Notify(HOOK, (Occasion.FAILED, Occasion.LATE)),
        Notify("mailto:ops@example.org", (Occasion.STARTED, Occasion.LATE)),
    )
    again = parse_groups(format_groups([group], dimensions=Dimensions()), dimensions=Dimensions()).groups
    assert again == (group,)
    with pytest.raises(InputError, match=r"Group.conf:3: Notify: 'x' is not an address"):
        parse_groups("Name: lab\nResourceQuota: 4\nNotify: x\n", dimensions=Dimensions())
