"""``cress reserve`` and ``cress reservations``: what they say, and what is refused."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cress.cli import reservations
from cress.cli.main import app
from cress.cli.tables import plain
from cress.client import ReservationView
from tests.center.program import Center

EXAM = ReservationView(
    name="exam", group="b", state="active", start=1796148000.0, until=1796162400.0, zone="UTC",
    nodes={"n1": 1, "n2": 1, "n3": 1, "n4": 1}, used=3, leaving=1, by="ann",
)  # fmt: skip
COURSE = ReservationView(
    name="course", group="b", start=1796148000.0, until=1796227200.0, next=1796752800.0, every="Tue", zone="UTC",
    nodes={"n1": 2, "n2": 1}, resource="<4, 8G>", count=3, by="ann",
)  # fmt: skip
PATCH = ReservationView(name="patch", start=1796148000.0, until=1796151600.0, zone="UTC", nodes={"n1": 1}, leaving=2)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_table_of_reservations() -> None:
    assert plain(reservations.COLUMNS, [reservations.row(each) for each in (EXAM, COURSE, PATCH)]) == [
        (
            "NAME    GROUP        NODES                  RESOURCE  FROM              UNTIL             EVERY  "
            "NEXT              STATE   USED BY  LEAVING"
        ),
        (
            "exam    b            n1, n2, n3 and 1 more  -         2026-12-01 18:00  22:00             -      -  "
            "               active        3        1"
        ),
        (
            "course  b            n1 ×2, n2              <4, 8G>   2026-12-01 18:00  2026-12-02 16:00  Tue    "
            "2026-12-08 18:00  coming        0        0"
        ),
        (
            "patch   maintenance  n1                     -         2026-12-01 18:00  19:00             -      -  "
            "               coming        -        2"
        ),
    ]


def test_what_was_reserved_is_said_in_a_line() -> None:
    assert reservations.summary(EXAM, dry_run=False) == [
        "reservation exam of group b: 4 nodes (n1, n2, n3, n4) are kept from 2026-12-01 18:00 until 22:00",
        "1 running task has to stop at its start unless it ends before",
    ]
    assert reservations.summary(COURSE, dry_run=True) == [
        (
            "reservation course of group b: <4, 8G> × 3 on 2 nodes (n1 ×2, n2) would be kept from 2026-12-01 "
            "18:00 until 2026-12-02 16:00, every Tue"
        )
    ]
    assert reservations.summary(PATCH, dry_run=False)[1] == (
        "2 running tasks have to stop at its start unless they end before"
    )


@pytest.fixture
def center(tmp_path: Path) -> Iterator[Center]:
    with Center(tmp_path / "data", forked=True) as running:
        yield running


@pytest.fixture
def said(center: Center, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return what a command prints, without its last line end.

    It runs in this process: a program for each of some thirty commands would take most of the time of the test.
    """
    monkeypatch.setenv("CRESS_DATA", str(center.data))
    monkeypatch.setattr("cress.client.config._chosen", [])
    for name in ("CRESS_URL", "CRESS_TOKEN", "CRESS_SOCKET", "CRESS_CLUSTER"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == code, (arguments, done.output)
        return done.output.removesuffix("\n")

    return call


def test_reservations_are_made_listed_and_removed_and_mistakes_are_one_sentence(
    center: Center, said: Callable[..., str]
) -> None:
    assert said("reservations") == "nothing is reserved in advance (docs/reservations.md)"
    assert said("reserve", "exam", "--nodes", "n1", "--for", "1h", code=2) == (
        "cress reserve: nodes: there is no node 'n1' (no node has registered yet)"
    )
    with center.executor("n1"):
        for arguments, code, sentence in (
            ("exam --nodes n2 --for 1h", 2, "nodes: there is no node 'n2' (one of n1)"),
            ("exam --nodes m* --for 1h", 2, "nodes: no node has a name like m* (`cress nodes` lists them)"),
            ("exam --nodes n1", 2, "for: it has no end (either for (4h), or until (a moment))"),
            ("exam --for 1h", 2, "nodes: it has no nodes"),
            ("exam --nodes n1 --for 1h --group x", 2, "group: there is no group 'x'"),
            ("exam --nodes n1 --for 1h --from 2026-02-30", 2, "from: '2026-02-30' has no time of day"),
            ("exam --nodes n1 --for 5d --from 9999-12-31T23:30", 2, "from: it begins after 9989-12-31, the last day"),
            (
                "exam --nodes n1 --for 1h --from 9999-12-31T23:30-05:00 --every week",
                2,
                "from: it begins after 9989-12-31",
            ),
            ("exam --nodes n1 --until 9999-12-31T23:30-05:00", 2, "until: it ends after 9989-12-31, the last day"),
            ("exam --nodes n1 --from +2h --until +1h", 2, "until: it ends before it begins"),
            ("exam --nodes n1 --for 1h --every often", 2, "every: 'often' is not a repetition"),
            ("exam --nodes n1 --for 1h --at-end never", 2, "at_end: 'never' is not one of them"),
            ("exam --count 2 --for 1h", 3, "there is no room for 2 whole nodes on 1 nodes"),
            ("exam --count 1 --for 1h --resource <0>", 2, "resource: "),
            ("ex,am --nodes n1 --for 1h", 2, "name: 'ex,am' is not a name of a reservation"),
        ):
            told = said("reserve", *arguments.split(), code=code)
            assert told.startswith(f"cress reserve: {sentence}"), told
            assert "\n" not in told
        tried = said("reserve", "exam", "--group", "default", "--nodes", "n1", "--for", "1h", "--dry-run")
        assert re.fullmatch(r"reservation exam of group default: 1 node \(n1\) would be kept from .* until .*", tried)
        # A long one has an end too.
        tried = said("reserve", "exam", "--group", "default", "--nodes", "n1", "--for", "36500d", "--dry-run")
        assert re.fullmatch(r"reservation exam .* until \d{4}-\d\d-\d\d .*", tried)
        made = said("reserve", "exam", "--group", "default", "--nodes", "n1", "--for", "1h")
        assert " is kept from " in made
        again = said("reserve", "exam", "--nodes", "n1", "--for", "1h", code=3)
        assert again == "cress reserve: name: there is a reservation exam already (another name, or --replace)"
        # Whoever makes it longer says whose it is, else its node would be closed to the group.
        longer = ("reserve", "exam", "--nodes", "n1", "--for", "2h", "--replace")
        assert said(*longer, code=2) == (
            "cress reserve: group: reservation exam is of group default, and without a group it would be for "
            "maintenance"
            " (say --group default, or remove it first)"
        )
        assert said("reservations").splitlines()[1].split()[:3] == ["exam", "default", "n1"]
        assert " of group default: 1 node (n1) is kept from " in said(*longer, "--group", "default")
        assert said("reserve", "exma", "--nodes", "n1", "--for", "2h", "--replace", code=2) == (
            "cress reserve: name: there is no reservation 'exma' to replace (did you mean exam?)"
        )
        other = said("reserve", "patch", "--nodes", "n1", "--for", "1h", code=3)
        assert other.startswith("cress reserve: nodes: node n1 is reserved by exam from ")
        assert said("reservations").splitlines()[1].split()[:3] == ["exam", "default", "n1"]
        assert center.get("/v1/nodes")["nodes"][0]["reason"].startswith(
            "kept for reservation exam of group default until"
        )
        assert said("reservations", "remove", "exma", code=2) == (
            "cress reservations remove: there is no reservation exma (did you mean exam?)"
        )
        assert said("reservations", "remove", "exam") == "reservation exam of group default removed"
        assert said("reserve", "--replace", "--nodes", "n1", "--for", "1h", code=2) == (
            "cress reserve: --replace needs the name of a reservation (`cress reservations` lists them)"
        )
        # Without a name it is called after its group; amounts alone are of one node.
        for name in ("default-1", "default-2"):
            told = said("reserve", "--group", "default", "--resource", "<1, 1G>", "--from", "+1h", "--for", "1h")
            assert told.startswith(f"reservation {name} of group default: <1,1G> × 1 on 1 node (n1) is kept from "), (
                told
            )
        kinds = center.http.get("/v1/events", params={"after": 0, "follow": "false"}).text
        assert [kind for kind in ("reservation.made", "reservation.removed") if kind in kinds] == [
            "reservation.made", "reservation.removed",
        ]  # fmt: skip
