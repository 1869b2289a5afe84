"""The floor of HTTP verify: a FastAPI route that parses the same body and answers a document."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel


class Body(BaseModel):
    verifier_card_uid: str
    card_uid: str
    run_id: str | None = None
    inputs: dict[str, dict[str, Any]]


class Answer(BaseModel):
    verdict: str
    inputs: dict[str, dict[str, Any]]


app = FastAPI()


@app.post("/bare")
async def bare(body: Body) -> Answer:
    return Answer(verdict="passed", inputs=body.inputs)
