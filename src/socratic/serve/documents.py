"""What people read of a server: the playground, the reference of its paths, and its OpenAPI document."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse

from socratic.serve.model import ServedModel, ServedTable
from socratic.serve.replies import Json
from socratic.serve.service import Service

_KINDS = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""What the files that are served hold, by their endings."""


def add_documents(app: FastAPI, service: Service) -> None:
    """Add the pages, and make the OpenAPI document say what the rows of these models hold."""
    described = app.openapi()
    reference = _reference(described)  # before it knows the models: whoever has no token may read the page
    described["components"]["schemas"]["Row"] = row_schema(service.models.values())
    static = {file.name: file.read_bytes() for file in (files("socratic.serve") / "static").iterdir()}
    pages = {
        "/": static["playground.html"].decode(),
        "/docs": reference,
        "/drift": static["drift.html"].decode(),
    }

    def add_page(path: str, page: str) -> None:
        @app.get(path, include_in_schema=False)
        async def shown() -> HTMLResponse:
            return HTMLResponse(page)

    def add_file(name: str, content: bytes) -> None:
        kind = _KINDS[PurePath(name).suffix]

        @app.get(f"/static/{name}", include_in_schema=False)
        async def sent() -> Response:
            return Response(content, media_type=kind)

    for path, page in pages.items():
        add_page(path, page)
    for name, content in static.items():
        add_file(name, content)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Json:
        return Json(described)


def row_schema(models: Iterable[ServedModel]) -> dict[str, Any]:
    """What a row may hold, as JSON schema: that of the only model of tables, or any of several."""
    schemas = [
        {
            "title": f"Row of {model.name}",
            "type": "object",
            "description": "Values by column. Those that are left out, or null, are not known and are marginalised.",
            "properties": {name: field.schema() for name, field in model.fields.items()},
            "additionalProperties": False,
        }
        for model in models
        if isinstance(model, ServedTable)
    ]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else {"type": "object"}


def _reference(described: Mapping[str, Any]) -> str:
    """A page of all paths and what they take; its script adds the columns, for those who may know them."""
    parts = [
        "<h1>How to ask</h1>",
        '<p><a href="/">Playground</a> · <a id="openapi" href="/openapi.json">OpenAPI</a></p>',
        '<p id="trouble" role="alert"></p>',
        '<form id="token" hidden><p><label for="secret">This server needs its token</label> ',
        '<input id="secret" type="password" autocomplete="off" required> <button>Open</button></p></form>',
    ]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {_text(path)}</code></h2>")
            parts.append(f"<p>{_text(operation.get('description', operation.get('summary', '')))}</p>")
            parts.append(_fields(operation, described["components"]["schemas"]))
    parts.append('<div id="rows"></div>')
    return _page("socratic: how to ask", "".join(parts))


def _fields(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """A table of what an operation takes."""
    taken = {each["name"]: each.get("description", "") for each in operation.get("parameters", ())}
    content = operation.get("requestBody", {}).get("content", {})
    name = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
    for field, schema in schemas.get(name, {}).get("properties", {}).items():
        taken[field] = schema.get("description", "")
    rows = "".join(f"<tr><td><code>{_text(key)}</code></td><td>{_text(said)}</td></tr>" for key, said in taken.items())
    return f"<table><tbody>{rows}</tbody></table>" if rows else ""


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css">'
        f'<script type="module" src="/static/reference.js"></script></head><body><main>{body}</main></body></html>'
    )


def _text(value: object) -> str:
    return html.escape(str(value))
