"""Small Card trees written for one test."""

from __future__ import annotations

import textwrap
from pathlib import Path

from wyrd.cards import CheckReport, check


def write(folder: Path, **files: str) -> Path:
    """Write `name_yaml="..."` as name.yaml, dedented; gives the folder."""
    for name, text in files.items():
        path = folder / name.replace("_yaml", ".yaml").replace("_toml", ".toml").replace("_txt", ".txt")
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def verifier(spec: str, *, name: str = "tide-check") -> str:
    head = f"apiVersion: wyrd/v1\nkind: Verifier\nmetadata: {{name: {name}, version: 1.0.0}}\nspec:\n"
    return head + textwrap.indent(textwrap.dedent(spec), "  ")


def checked(folder: Path, text: str) -> CheckReport:
    (folder / "card.yaml").write_text(text, encoding="utf-8")
    return check(folder / "card.yaml")


def assertion(check_body: str, *, schema: str = "") -> str:
    slot = f"{{type: json{', schema: ' + schema if schema else ''}}}"
    return verifier(
        f"inputs: {{v: {slot}}}\n"
        "requirements:\n"
        f"  - {{id: r1, statement: s, check: {{kind: assert, path: inputs.v, {check_body}}}}}\n"
    )
