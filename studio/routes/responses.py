"""Gives all routes of the studio what they share: bodies in, answers and refusals out, work beside the event loop."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from runtime.errors import (
    InvalidConfig,
    MessageTooLarge,
    OriginRefused,
    SpeechError,
    StorageFailed,
)
from runtime.shared.file_names import disposition
from runtime.shared.port.errors import error_response
from runtime.shared.port.limits import body_pieces
from runtime.shared.port.origins import SAFE_METHODS, may_use

BODY_BYTES = 2 * 2**20  # Bytes of a JSON body.
FIELD_BYTES = 2**20  # Bytes of a form's text field.
PIECE_BYTES = 2**16
IDLE_S = 60.0  # Timeout of the next piece of a body.
# Of the caller, and never to be guessed at by a shared cache, another site or a browser.
PRIVATE = {
    "cache-control": "private, no-cache",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}

Value = TypeVar("Value")
Given = ParamSpec("Given")
Handler = Callable[[Request], Awaitable[Response]]

# It warns of every damaged form, and anybody may send as many as he likes.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


class WorkerPool:
    """Workers for what waits for the disk or encodes sound. Thread: the event loop hands work in."""

    def __init__(self, workers: int = 4) -> None:
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="studio")

    async def __call__(self, work: Callable[Given, Value], *args: Given.args, **named: Given.kwargs) -> Value:
        """Run something slow and wait for it."""
        call = functools.partial(work, *args, **named)
        return await asyncio.get_running_loop().run_in_executor(self._workers, call)

    def close(self) -> None:
        """Let what runs end; nothing new begins."""
        self._workers.shutdown(wait=True, cancel_futures=True)


def handle_errors(handler: Handler) -> Handler:
    """Say refusals as the runtime does, and refuse what another site's page sends."""

    @functools.wraps(handler)
    async def answer(request: Request) -> Response:
        try:
            if request.method not in SAFE_METHODS and not may_use(request.headers):
                raise OriginRefused
            return await handler(request)
        except SpeechError as error:
            return error_response(error)
        except ClientDisconnect:
            return Response(status_code=499)

    return answer


def json_response(value: object, status: int = 200) -> JSONResponse:
    """JSON that belongs to the caller."""
    return JSONResponse(value, status_code=status, headers={**PRIVATE, "cache-control": "no-store"})


def streamed_json(pieces: Iterable[bytes], size: int) -> Response:
    """JSON that belongs to the caller, of ``size`` bytes, which is too large to be written at once."""

    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    headers = {**PRIVATE, "cache-control": "no-store", "content-length": str(size)}
    return StreamingResponse(stream(), media_type="application/json", headers=headers)


def stored_json(text: bytes) -> Response:
    """JSON that belongs to the caller, as the store or a worker has written it."""
    return streamed_json((text[at : at + PIECE_BYTES] for at in range(0, len(text), PIECE_BYTES)), len(text))


def json_list(name: str, objects: Iterable[object], **rest: object) -> bytes:
    """Return JSON of a list and of the ``rest``, in a worker: object by object, so that the loop need not wait."""
    fields = [f'"{name}": [{", ".join(json.dumps(item) for item in objects)}]']
    fields += [f'"{key}": {json.dumps(value)}' for key, value in rest.items()]
    return f"{{{', '.join(fields)}}}".encode()


def file_response(data: bytes, media_type: str, name: str, *, inline: bool = False, **headers: str) -> Response:
    """Return a file under a name that people gave, to be saved, or to be used by the page."""
    return Response(data, media_type=media_type, headers={**file_headers(name, inline=inline), **headers})


def file_headers(name: str, *, inline: bool = False) -> dict[str, str]:
    """Return the headers of a file that is private and has a name."""
    return {**PRIVATE, "content-disposition": disposition(name, inline=inline)}


async def read_body(request: Request, most: int = BODY_BYTES) -> bytes:
    """Return the body, no more of it than a JSON body may have.

    Raises:
        SpeechError: as `body_pieces`.
    """
    return b"".join(await read_pieces(request, most))


async def read_pieces(request: Request, most: int) -> list[bytes]:
    """Return a body in pieces, for what is too large to be joined on the event loop.

    Raises:
        SpeechError: as `body_pieces`.
    """
    return [piece async for piece in body_pieces(request, max_bytes=most, idle_s=IDLE_S)]


async def read_form(request: Request, largest: dict[str, int]) -> dict[str, str | bytes]:
    """Read the fields of a multipart form, with the maximum bytes of files in `largest`. Large files are on disk.

    Raises:
        InvalidConfig: it is no form, or has other files.
        SpeechError: as `body_pieces`.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise InvalidConfig(where="The body", why="send a multipart/form-data form", param="body")
    most = sum(largest.values()) + 4 * FIELD_BYTES
    parser = MultiPartParser(
        request.headers,
        body_pieces(request, max_bytes=most, idle_s=IDLE_S),
        max_files=len(largest),
        max_fields=4,
        max_part_size=FIELD_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException:
        why = "it is not a valid form, or has too many or too large fields"
        raise InvalidConfig(where="The body", why=why, param="body") from None
    except OSError:
        raise StorageFailed(what="The upload", why="the disk is full or cannot be written") from None
    try:
        return {name: await _content(name, value, largest) for name, value in form.multi_items()}
    finally:
        await form.close()


async def _content(name: str, value: UploadFile | str, largest: dict[str, int]) -> str | bytes:
    if isinstance(value, str):
        return value
    if name not in largest:
        raise InvalidConfig(where=name, why=f"files are taken as {' or '.join(largest)} only", param=name)
    if (size := value.size or 0) > largest[name]:
        raise MessageTooLarge(what=f"The file {name}", size=size, limit=largest[name], param=name)
    return await value.read()


def query_int(request: Request, name: str, default: int, low: int, high: int) -> int:
    """Return a number of the query.

    Raises:
        InvalidConfig: it is none from ``low`` to ``high``.
    """
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and low <= int(text) <= high):
        raise InvalidConfig(where=name, why=f"it must be a whole number from {low} to {high}", param=name)
    return int(text)


def query_flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() in {"1", "true", "yes"}
