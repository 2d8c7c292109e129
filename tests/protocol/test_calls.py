"""The table of calls: each row by itself, and docs/api.md, which is made from it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cress.protocol.calls import CALLS, cluster_calls, job_calls
from cress.protocol.calls.row import CallRow
from tools import calls_page

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
# Whoever does not know whether one of these arrived must not send it again.
ONCE = {
    "POST /v1/jobs/requeue",
    "POST /v1/jobs/{id}/retry",
    "POST /v1/jobs/{id}/restart",
    "POST /v1/jobs/{id}/revert",
    "POST /v1/jobs/{id}/trigger",
    "POST /v1/jobs/{id}/resume",
    "POST /v1/jobs/{id}/signal",
    "WEBSOCKET /v1/jobs/{id}/tasks/{task}/exec",
    "POST /v1/leases/{id}/shrink",
    "POST /v1/rebalance",
    "DELETE /v1/rebalance",
    "POST /v1/reservations",
    "DELETE /v1/reservations/{name}",
    "POST /v1/login",
    "POST /v1/tokens",
    "POST /v1/join-tokens",
    "POST /v1/secret-key/rotate",
}
# The center takes one of these once for each key, however often it comes.
KEYED = {
    "POST /v1/jobs",
    "POST /v1/jobs/{id}/retry",
    "POST /v1/jobs/{id}/resume",
    "POST /v1/leases",
    "POST /v1/leases/{id}/tasks",
    "POST /v1/leases/{id}/grow",
}


def test_a_call_is_one_row() -> None:
    assert [call for call, count in Counter((row.method, row.path) for row in CALLS).items() if count > 1] == []
    assert len(CALLS) == 100


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert calls_page.page(text) == text, "python -m tools.calls_page"
    assert text.count("\n| `GET /v1/jobs/{id}?wait=0` | viewer |") == 1


def test_what_must_not_be_sent_twice_says_so() -> None:
    assert {f"{row.method} {row.path}" for row in CALLS if not row.again} == ONCE
    for row in CALLS:
        assert row.again or row.method != "GET", row.path
        # A call that makes something would make it twice, but for its key.
        assert row.keyed or not (row.makes and row.again), row.path


def test_what_is_taken_once_for_each_key_says_so() -> None:
    assert {f"{row.method} {row.path}" for row in CALLS if row.keyed} == KEYED


@pytest.mark.parametrize("row", CALLS, ids=lambda row: f"{row.method} {row.path}")
def test_a_row_says_what_it_does_in_one_line(row: CallRow[Any]) -> None:
    assert row.about[0].islower() or row.about[0] in "[`", row.about
    assert "\n" not in row.about + row.shown
    assert not row.about.endswith(".")
    # A table of Markdown has no other use for it.
    assert "|" not in row.about + row.shown
    assert re.fullmatch(r"/v1(/[a-z-]+|/\{[a-z]+\})+", row.path), row.path


def test_values_take_the_place_of_words() -> None:
    assert job_calls.TASK.at(12, 3) == "/v1/jobs/12/tasks/3"
    assert cluster_calls.NODE.at("a/b c") == "/v1/nodes/a%2Fb%20c"


def test_the_role_of_a_call_is_that_of_its_action() -> None:
    roles = {f"{row.method} {row.path}": row.role for row in CALLS}
    assert roles["GET /v1/health"] == "none"
    assert roles["GET /v1/jobs"] == "viewer"
    assert roles["POST /v1/jobs"] == "user"
    assert roles["POST /v1/jobs/{id}/cancel"] == "owner"
    assert roles["POST /v1/nodes/{name}/cordon"] == "operator"
    assert roles["PUT /v1/groups"] == "admin"
