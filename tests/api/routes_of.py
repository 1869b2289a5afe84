"""The application's own route table, whatever routers it came from."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.routing import APIRoute


@dataclass(frozen=True, slots=True)
class Door:
    """One method of one route, with its path parameters in braces."""

    method: str
    path: str
    route: APIRoute

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def api_routes(app: FastAPI) -> list[APIRoute]:
    return [route for route in app.routes if isinstance(route, APIRoute)]


def doors(app: FastAPI) -> list[Door]:
    return [
        Door(method, route.path, route)
        for route in api_routes(app)
        for method in sorted(route.methods or ())
        if method != "HEAD"
    ]
