"""Functions that the studio's routes share: request bodies, responses, errors and threads."""

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
from starlette.routing import Route

from runtime.errors import (
    InvalidConfig,
    InvalidMessage,
    MessageTooLarge,
    OriginRefused,
    SpeechError,
    StorageFailed,
)
from runtime.shared.file_names import disposition
from runtime.shared.port.errors import error_response
from runtime.shared.port.limits import body_pieces
from runtime.shared.port.origins import SAFE_METHODS, may_use
from runtime.shared.strict_json import MAX_BODY_VALUES, has_more_values
from studio.store.store import Store
from studio.visitors.visitors import Visitors

BODY_BYTES = 2 * 2**20  # Maximum size of a JSON body in bytes.
FIELD_BYTES = 2**20  # Maximum size of a text field of a form in bytes.
PIECE_BYTES = 2**16
BODY_TIMEOUT_S = 60.0  # Timeout in seconds for the next piece of a body.
# Headers of private responses: no shared cache, no use by other sites, no content sniffing.
PRIVATE = {
    "cache-control": "private, no-cache",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
}

Value = TypeVar("Value")
Given = ParamSpec("Given")
Handler = Callable[[Request], Awaitable[Response]]
RouteTable = list[tuple[str, str, Handler]]

# The parser logs a warning for every invalid form, which clients could use to flood the log.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


class WorkerPool:
    """Pool of worker threads that the routes use for disk access and audio encoding.

    Thread: event loop.
    """

    def __init__(self, workers: int = 4) -> None:
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="studio")

    async def __call__(self, work: Callable[Given, Value], *args: Given.args, **named: Given.kwargs) -> Value:
        """Run a function in a worker thread and wait for its result."""
        call = functools.partial(work, *args, **named)
        return await asyncio.get_running_loop().run_in_executor(self._workers, call)

    def close(self) -> None:
        """Wait until the running functions have ended, and refuse new functions."""
        self._workers.shutdown(wait=True, cancel_futures=True)


class StoreRoutes:
    """Base class of HTTP routes that read or change stored data of a visitor.

    Thread: event loop. Worker threads access the disk.
    """

    def __init__(self, store: Store, visitors: Visitors, workers: WorkerPool) -> None:
        self._store = store
        self._visitors = visitors
        self._workers = workers

    def table(self) -> RouteTable:
        """Return a table with the path, the HTTP method and the handler of each route."""
        raise NotImplementedError

    def routes(self) -> list[Route]:
        return [Route(path, handle_errors(handler), methods=[method]) for method, path, handler in self.table()]

    def _named(self, request: Request) -> tuple[str, str]:
        """Return the visitor's owner name, and the id in the request's path.

        Raises:
            VisitorUnknown: The browser does not accept cookies.
        """
        return self._visitors.identify(request).required_owner, request.path_params["id"]


def handle_errors(handler: Handler) -> Handler:
    """Wrap a request handler so that it returns errors in the format of the runtime.

    Requests from pages of other sites are refused.
    """

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
    """Return a JSON response that no cache may store."""
    return JSONResponse(value, status_code=status, headers={**PRIVATE, "cache-control": "no-store"})


def streamed_json(pieces: Iterable[bytes], size: int) -> Response:
    """Return a JSON response that is sent in pieces, and that caches must not store.

    Args:
        pieces: Consecutive pieces of the serialized JSON.
        size: Total size of the pieces in bytes.
    """

    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
            await asyncio.sleep(0)  # Let other tasks run, which a client that reads fast would otherwise block.

    headers = {**PRIVATE, "cache-control": "no-store", "content-length": str(size)}
    return StreamingResponse(stream(), media_type="application/json", headers=headers)


def stored_json(text: bytes) -> Response:
    """Return a response that sends serialized JSON in pieces, and that caches must not store."""
    return streamed_json((text[at : at + PIECE_BYTES] for at in range(0, len(text), PIECE_BYTES)), len(text))


def json_list(name: str, objects: Iterable[object], **rest: object) -> bytes:
    """Serialize a JSON object that contains a list of objects.

    Args:
        name: Key of the list in the JSON object.
        objects: Items of the list. They are serialized one by one.
        rest: Other fields of the JSON object.
    """
    fields = [f'"{name}": [{", ".join(json.dumps(item) for item in objects)}]']
    fields += [f'"{key}": {json.dumps(value)}' for key, value in rest.items()]
    return f"{{{', '.join(fields)}}}".encode()


def file_response(data: bytes, media_type: str, name: str, *, inline: bool = False, **headers: str) -> Response:
    """Return a response that contains a file.

    The browser downloads the file. If `inline` is True, the page can display or play the file.
    """
    return Response(data, media_type=media_type, headers={**file_headers(name, inline=inline), **headers})


def file_headers(name: str, *, inline: bool = False) -> dict[str, str]:
    """Return the HTTP headers for a file with this name, which shared caches must not store."""
    return {**PRIVATE, "content-disposition": disposition(name, inline=inline)}


async def read_body(request: Request, most: int = BODY_BYTES) -> bytes:
    """Read the body of a request with JSON, and return the bytes.

    `most` is the maximum size in bytes.

    Raises:
        InvalidMessage: The body has more than `MAX_BODY_VALUES` values.
        SpeechError: The body is too large or arrives too slowly.
    """
    body = b"".join(await read_pieces(request, most))
    if has_more_values(body, MAX_BODY_VALUES):
        raise InvalidMessage(why=f"it holds more than {MAX_BODY_VALUES} values")
    return body


async def read_pieces(request: Request, most: int) -> list[bytes]:
    """Read a request body as a list of chunks.

    Large chunks are not joined, because that would block the event loop. `most` is the maximum total size in bytes.

    Raises:
        SpeechError: The body is too large or arrives too slowly.
    """
    return [piece async for piece in body_pieces(request, max_bytes=most, idle_s=BODY_TIMEOUT_S)]


async def read_form(request: Request, largest: dict[str, int]) -> dict[str, str | bytes]:
    """Parse a multipart form and return its fields.

    `largest` has the maximum size in bytes of each file field. Large files are buffered on disk.

    Raises:
        InvalidConfig: The body is not a valid form, or has other files.
        SpeechError: The body is too large or arrives too slowly.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise InvalidConfig(where="The body", why="send a multipart/form-data form", param="body")
    most = sum(largest.values()) + 4 * FIELD_BYTES
    parser = MultiPartParser(
        request.headers,
        body_pieces(request, max_bytes=most, idle_s=BODY_TIMEOUT_S),
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
    """Return an integer parameter of the query string.

    Raises:
        InvalidConfig: The value is not an integer from `low` to `high`.
    """
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and low <= int(text) <= high):
        raise InvalidConfig(where=name, why=f"it must be a whole number from {low} to {high}", param=name)
    return int(text)


def query_flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() in {"1", "true", "yes"}
