"""Serves pages for people: `/` with the models, figures and a conversation, `/docs` with the API.

Plain files beside this.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

__all__ = ["open_paths", "router"]

router = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).with_name("pages")
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_HEADERS = {
    # Nothing comes from elsewhere, and nobody puts these pages into one of his own.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@cache
def _files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _TYPES}


@cache
def open_paths() -> frozenset[str]:
    """Return paths that hold nothing of this server's models: a browser asks for them before it has a key."""
    return frozenset({"/", "/docs", "/openapi.json", *(f"/pages/{name}" for name in _files())})


@router.get("/")
async def home() -> Response:
    """Show models, figures, a conversation."""
    return _page("index.html")


@router.get("/docs")
async def docs() -> Response:
    """Show the API."""
    return _page("docs.html")


@router.get("/pages/{name}")
async def file(name: str) -> Response:
    """Send a file that belongs to a page."""
    return _page(name)


def _page(name: str) -> Response:
    if name not in _files():
        raise HTTPException(404)
    return Response(_files()[name], media_type=_TYPES[Path(name).suffix], headers=_HEADERS)
