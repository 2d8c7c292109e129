"""Writes the table of calls into docs/api.md, from src/cress/protocol/calls.

Run after a change there:

python -m tools.calls_page
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cress.protocol.calls import CALLS
from cress.protocol.calls.row import WEBSOCKET
from cress.protocol.queries import Query

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
BEGIN, END = "<!-- calls: begin (python -m tools.calls_page) -->\n", "<!-- calls: end -->\n"


def table() -> str:
    """Return the calls as a table of Markdown."""
    lines = ["| call | role | effect |", "|---|---|---|"]
    for row in CALLS:
        method = "WebSocket" if row.method == WEBSOCKET else row.method
        call = f"`{method} {row.path}{_parameters(row.query)}`"
        body = f" `{row.shown}`" if row.shown else ""
        once = "" if row.again else ". Not to be sent twice"
        lines.append(f"| {call}{body} | {row.role} | {row.about}{once} |")
    return "\n".join(lines) + "\n"


def _parameters(query: type[Query] | None) -> str:
    """Return the parameters as in an address, with defaults that say something."""
    fields = () if query is None else msgspec.structs.fields(query)
    texts = [
        field.encode_name + ("" if field.default in (None, "") else f"={_text(field.default)}") for field in fields
    ]
    return "?" + "&".join(texts) if texts else ""


def _text(default: object) -> str:
    return str(default).lower().removesuffix(".0")


def page(text: str) -> str:
    """Return the page with the table of now between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
