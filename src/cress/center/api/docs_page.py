"""``/openapi.json``, and ``/docs``: the calls as a page for a browser, without scripts and external content."""

from __future__ import annotations

import asyncio
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem; }
h2 { font: 600 1rem/1.4 ui-monospace, monospace; margin: 2rem 0 .3rem; overflow-wrap: anywhere; }
h2 b { display: inline-block; min-width: 4.5rem; }
p { margin: .3rem 0; white-space: pre-line; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; font-size: .9rem; overflow-wrap: anywhere; }
code { font-size: .9em; }
"""  # noqa: E501


async def document(request: Request) -> Response:
    """Return the OpenAPI document; it needs no token either."""
    return await asyncio.to_thread(lambda: JSONResponse(request.app.state.document()))


async def docs(request: Request) -> Response:
    """Return the calls as a page; it needs no token, since it says nothing about this cluster."""
    text = await asyncio.to_thread(lambda: page(request.app.state.document()))
    return HTMLResponse(
        text,
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
    )


ROUTES = (Route("/openapi.json", document), Route("/docs", docs))


def page(document: dict[str, Any]) -> str:
    """Return the page of an OpenAPI document."""
    calls = "".join(
        _call(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}: the API")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>{title}</h1>"
        "<p>Every call but this page and the document needs the header <code>Authorization: Bearer "
        "TOKEN</code>, with the token from the "
        "file <code>token</code> in the data directory of the center. The document with all fields, from "
        "which clients can be made: "
        f'<a href="/openapi.json">/openapi.json</a>.</p>{calls}</body></html>'
    )


def _call(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}</td>"
        f"<td>{escape(parameter.get('description', ''))}</td></tr>"
        for parameter in operation.get("parameters", ())
    ]
    for what, content in (("body", operation.get("requestBody", {})), ("answer", _good(operation))):
        kind = _kind(content)
        if kind:
            rows.append(f"<tr><td>{what}</td><td></td><td><code>{escape(kind)}</code></td></tr>")
    table = f"<table>{''.join(rows)}</table>" if rows else ""
    return f"<h2><b>{method.upper()}</b> {escape(path)}</h2><p>{escape(operation.get('description', ''))}</p>{table}"


def _good(operation: dict[str, Any]) -> dict[str, Any]:
    good = (response for code, response in operation.get("responses", {}).items() if code.startswith("2"))
    return next(good, {})


def _kind(content: dict[str, Any]) -> str:
    """Return the struct name of a body."""
    schema = content.get("content", {}).get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "")).rpartition("/")[2]
