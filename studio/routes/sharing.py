"""Public links to takes (recordings of generated speech).

Only the owner creates and deletes a link, and anyone may open it. The page of a link is plain HTML without scripts, and
shows no data about the owner. Search engines do not index it, and its URL is not sent as a referrer.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from runtime.errors import SpeechError
from runtime.shared.file_names import file_name
from studio.errors import NotKept, SharingBusy, SharingOff
from studio.routes.responses import PRIVATE, RouteTable, StoreRoutes, WorkerPool, file_headers, json_response
from studio.store.audio_files import FORMATS, encoded, tags_of
from studio.store.store import Store
from studio.visitors.visitors import Visitors
from studio.words import languages, words

_PAGE = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="robots" content="noindex, nofollow, noarchive" />
<meta name="referrer" content="no-referrer" />
<meta name="color-scheme" content="light dark" />
<title>{title}</title>
<link rel="stylesheet" href="../studio/css/faces.css" />
<link rel="stylesheet" href="../studio/css/shared.css" />
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""

FORMAT = "mp3"
MAX_CONCURRENT_ENCODINGS = 8  # Maximum number of concurrent reads and encodings for shared links.
MAX_CACHED_FILES = 16
_RANGE = re.compile(r"bytes=(\d{0,12})-(\d{0,12})")
HEADERS = {
    **PRIVATE,
    "cache-control": "private, no-store",
    "content-security-policy": "default-src 'none'; media-src 'self'; style-src 'self'; "
    "font-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow, noarchive",
}


class SharingRoutes(StoreRoutes):
    """HTTP routes of public links to stored recordings.

    Thread: event loop. Worker threads access the disk and encode.
    """

    def __init__(self, store: Store, visitors: Visitors, workers: WorkerPool, export_workers: WorkerPool) -> None:
        super().__init__(store, visitors, workers)
        self._export_workers = export_workers
        self._busy = 0
        self._files: OrderedDict[str, bytes] = OrderedDict()

    def table(self) -> RouteTable:
        share = "/studio/takes/{id}/share"
        return [
            ("GET", share, self.link),
            ("POST", share, self.begin),
            ("DELETE", share, self.end),
            ("GET", "/shared/{token}", self.page),
            ("GET", "/shared/{token}/audio", self.audio),
        ]

    # --- Routes that only the owner of a recording may use.

    async def link(self, request: Request) -> Response:
        """Return the path of the public link to a recording as JSON.

        The path is relative to the studio's URL. It is null if the recording has no link.
        """
        return json_response(_address(await self._workers(self._store.shares.token_of, *self._named(request))))

    async def begin(self, request: Request) -> Response:
        return json_response(_address(await self._workers(self._store.shares.begin, *self._named(request))), 201)

    async def end(self, request: Request) -> Response:
        await self._workers(self._store.shares.end, *self._named(request))
        return json_response(_address(None))

    def _named(self, request: Request) -> tuple[str, str]:
        if not self._is_on:
            raise SharingOff
        return self._visitors.identify(request).required_owner, request.path_params["id"]

    @property
    def _is_on(self) -> bool:
        return self._store.settings.share_links == "on"

    # --- Routes that everyone who has the link may use.

    async def page(self, request: Request) -> Response:
        """Return the public HTML page of a shared recording.

        The response is the same for a revoked link as for a link that never existed.
        """
        language = request.headers.get("accept-language", "")
        try:
            record = await self._workers(self._store.shares.record_of, self._token(request))
        except NotKept:
            return HTMLResponse(ended(language), status_code=404, headers=HEADERS)
        except SpeechError as error:
            return HTMLResponse(ended(language), status_code=error.http_status, headers=HEADERS)
        return HTMLResponse(shared_page(record, request.path_params["token"], language), headers=HEADERS)

    async def audio(self, request: Request) -> Response:
        """Return the audio of a shared recording, or only the byte range that is requested."""
        token = self._token(request)
        record = await self._workers(self._store.shares.record_of, token)
        data = self._files.get(record["sha256"])
        if data is None:
            data = await self._encoded(token, record["sha256"])
        headers = {**HEADERS, **file_headers(file_name(record["text"], FORMAT), inline=True), "accept-ranges": "bytes"}
        headers["cache-control"] = HEADERS["cache-control"]
        wanted = _RANGE.fullmatch(request.headers.get("range", ""))
        part = _part(wanted, len(data)) if wanted else None
        if wanted is None:
            return Response(data, media_type=FORMATS[FORMAT], headers=headers)
        if part is None:
            return Response(status_code=416, headers={**headers, "content-range": f"bytes */{len(data)}"})
        first, last = part
        headers["content-range"] = f"bytes {first}-{last}/{len(data)}"
        return Response(data[first : last + 1], status_code=206, media_type=FORMATS[FORMAT], headers=headers)

    async def _encoded(self, token: str, sha256: str) -> bytes:
        """Return the audio of a shared take as an encoded file.

        Raises:
            SharingBusy: Too many clients are waiting for files that are not encoded yet.
        """
        if self._busy >= MAX_CONCURRENT_ENCODINGS:
            raise SharingBusy(retry_after_s=1)
        self._busy += 1
        try:
            data = await asyncio.shield(self._export_workers(self._file, token))
        finally:
            self._busy -= 1
        self._files[sha256] = data
        while len(self._files) > MAX_CACHED_FILES:
            self._files.popitem(last=False)
        return data

    def _file(self, token: str) -> bytes:
        record, pcm = self._store.shares.pcm(token)
        # Visitors must not see private names, such as those of the take and its voice.
        tags = tags_of({**record, "name": None, "label": None, "voice": None})
        return encoded(FORMAT, pcm, {name: tags[name] for name in ("title", "comment", "software") if name in tags})

    def _token(self, request: Request) -> str:
        if not self._is_on:
            raise NotKept(what="link")
        token: str = request.path_params["token"]
        return token


def _address(token: str | None) -> dict[str, Any]:
    return {"link": None if token is None else f"shared/{token}"}


def _part(wanted: re.Match[str], size: int) -> tuple[int, int] | None:
    """Return the first and last byte of a range, or None if the range is not satisfiable."""
    first, last = wanted[1], wanted[2]
    if not first:  # The client requests the last bytes of the file.
        return (max(0, size - int(last)), size - 1) if last and int(last) > 0 else None
    end = min(int(last), size - 1) if last else size - 1
    return (int(first), end) if int(first) <= end else None


def shared_page(record: dict[str, Any], token: str, accepted: str) -> str:
    """Return the public HTML page of a shared recording.

    Args:
        record: Metadata record of the recording.
        token: Token in the URL of the link.
        accepted: Accept-Language header of the browser, which selects the language of the page.
    """
    language, texts = _accepted_texts(accepted)
    listen = escape(texts["shared.listen"])
    content = (
        f"<h1>{escape(texts['shared.title'])}</h1>\n"
        f'<blockquote dir="auto">{escape(record["text"])}</blockquote>\n'
        f'<audio controls preload="metadata" src="{escape(token)}/audio" aria-label="{listen}"></audio>\n'
        f"<p>{escape(texts['shared.generated'])}</p>"
    )
    return _PAGE.format(language=language, title=escape(texts["shared.title"]), content=content)


def ended(accepted: str) -> str:
    """Return the HTML page that is shown for a revoked or unknown link.

    `accepted` is the browser's Accept-Language header, which selects the language of the page.
    """
    language, texts = _accepted_texts(accepted)
    content = f"<h1>{escape(texts['shared.ended'])}</h1>\n<p>{escape(texts['shared.ended_why'])}</p>"
    return _PAGE.format(language=language, title=escape(texts["shared.ended"]), content=content)


def _accepted_texts(accepted: str) -> tuple[str, dict[str, str]]:
    """Return the first supported language of the Accept-Language header, and its texts."""
    known = languages()
    wanted = [tag.split(";")[0].strip().lower().partition("-")[0] for tag in accepted[:200].split(",")]
    language = next((code for code in wanted if code in known), "en")
    return language, words("en") | words(language)
