"""The API reference page, made from the OpenAPI document on the server.

The usual viewers load scripts from a content network; a server that runs offline, and a page
that sees credentials, should not.
"""

import json
from html import escape
from typing import Any

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
code,pre{font:13px/1.45 ui-monospace,monospace;background:#f4f4f4}code{padding:.1rem .3rem}
pre{padding:.7rem;overflow:auto}summary{cursor:pointer;padding:.25rem 0}
.method{display:inline-block;width:4.5rem;font-weight:600}section{margin:2rem 0}
"""
_METHODS = ("get", "post", "put", "patch", "delete")


def page(document: dict[str, Any]) -> str:
    """HTML of an OpenAPI document: every route by tag, then every schema."""
    info = document.get("info", {})
    title = escape(str(info.get("title", "API")))
    by_tag: dict[str, list[str]] = {}
    for path, item in document.get("paths", {}).items():
        for method in _METHODS:
            if method in item:
                tags = item[method].get("tags") or ["other"]
                by_tag.setdefault(str(tags[0]), []).append(_operation(method, path, item[method]))
    sections = "".join(
        f"<section><h2>{escape(tag)}</h2>{''.join(operations)}</section>"
        for tag, operations in by_tag.items()
    )
    schemas = "".join(
        f'<details id="{escape(name, quote=True)}"><summary><code>{escape(name)}</code></summary>'
        f"{_json(schema)}</details>"
        for name, schema in sorted(document.get("components", {}).get("schemas", {}).items())
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style><h1>{title}</h1><p>{escape(str(info.get('description', '')))}</p>"
        "<p>Send <code>Authorization: Bearer &lt;token or API key&gt;</code>. The same as data: "
        f'<a href="/openapi.json">/openapi.json</a>.</p>{sections}'
        f"<section><h2>schemas</h2>{schemas}</section></html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    parts = [f"<p>{escape(str(operation.get('description') or operation.get('summary') or ''))}</p>"]
    for parameter in operation.get("parameters", ()):
        need = "required" if parameter.get("required") else "optional"
        parts.append(f"<p><code>{escape(parameter['name'])}</code> in {escape(parameter['in'])}, {need}</p>")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(f"<p>Body</p>{_json(content.get('schema', {}))}")
    for status, answer in operation.get("responses", {}).items():
        for content in answer.get("content", {}).values():
            parts.append(f"<p>{escape(status)}</p>{_json(content.get('schema', {}))}")
    return (
        f'<details><summary><span class="method">{method.upper()}</span>'
        f"<code>{escape(path)}</code></summary>{''.join(parts)}</details>"
    )


def _json(schema: Any) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2, ensure_ascii=False))}</pre>"
