"""The files that the pages load: styles, scripts, the chart library and the icon."""

import hashlib
from collections.abc import Mapping
from functools import cache, partial
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

MEDIA_TYPES: Final[Mapping[str, str]] = {
    "style.css": "text/css",
    "charts.css": "text/css",
    "charts.js": "text/javascript",
    "page.js": "text/javascript",
    "review.js": "text/javascript",
    "vendor/uPlot-1.6.32.min.js": "text/javascript",
    "vendor/uPlot-1.6.32.min.css": "text/css",
    "icon.svg": "image/svg+xml",
}
"""Every file, with its media type."""
_FOREVER: Final = "max-age=31536000, immutable"
"""Tells browsers to keep a file for a year and not to ask again. For addresses that have a hash of the content."""
_A_DAY: Final = "max-age=86400"


@cache
def asset(name: str) -> bytes:
    """Return a file that lies beside this module."""
    return files(__package__).joinpath(name).read_bytes()


@cache
def address(name: str) -> str:
    """Return the address of a file. A hash of the content is part of it, so one address always has the same content."""
    return f"/{name}?{hashlib.sha256(asset(name)).hexdigest()[:16]}"


def asset_routes() -> list[Route]:
    """Return a route for each file."""

    async def answer(name: str, request: Request) -> Response:
        # Browsers ask for the icon by its plain name. Without a hash its content may change: it is kept for a day.
        headers = {"Cache-Control": _A_DAY if name == "icon.svg" else _FOREVER}
        return Response(asset(name), media_type=MEDIA_TYPES[name], headers=headers)

    return [Route(f"/{name}", partial(answer, name)) for name in MEDIA_TYPES]
