"""Parser of multipart forms with size limits, for all routes that accept a file."""

from __future__ import annotations

import logging

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from runtime.errors import InvalidConfig, MessageTooLarge, StorageFailed
from runtime.settings import Limits
from runtime.shared.port.limits import body_pieces

FIELD_BYTES = 32 * 2**10
MAX_FIELDS, MAX_FILES = 16, 2
FORM_BYTES = MAX_FIELDS * FIELD_BYTES  # Maximum size in bytes of all fields except the file.

# By default, the parser logs a warning for every invalid form, so that a client could fill the log.
logging.getLogger("python_multipart").setLevel(logging.ERROR)


async def read_multipart(
    request: Request, limits: Limits, *, what: str, refused: str
) -> tuple[dict[str, str], dict[str, bytes]]:
    """Parse a multipart form and return its text fields and its files, both by name.

    Large files are buffered on disk during the request.

    Args:
        what: Name of the data in the error message if the temporary file cannot be written.
        refused: Error message for a body that is not multipart/form-data.

    Raises:
        InvalidConfig: The body is not a multipart form.
        UnsupportedEncoding, MessageTooLarge, SessionIdle, BodyTooSlow: See `body_pieces`.
        StorageFailed: The temporary file cannot be written.
    """
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise InvalidConfig(where="body", why=refused, param="body")
    max_body_bytes = limits.max_upload_bytes + FORM_BYTES
    body = body_pieces(request, max_bytes=max_body_bytes, idle_s=limits.idle_s, what="The upload")
    parser = MultiPartParser(
        request.headers, body, max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=FIELD_BYTES
    )
    try:
        form = await parser.parse()
    except MultiPartException:
        why = "it is not a valid form, or has too many or too large fields"
        raise InvalidConfig(where="body", why=why, param="body") from None
    except OSError:
        raise StorageFailed(what=what, why="the upload could not be stored") from None
    try:
        fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
        files = {
            name: await _content(file, limits) for name, file in form.multi_items() if isinstance(file, UploadFile)
        }
    finally:
        await form.close()
    return fields, files


async def _content(upload: UploadFile, limits: Limits) -> bytes:
    if (size := upload.size or 0) > limits.max_upload_bytes:
        raise MessageTooLarge(what="The upload", size=size, limit=limits.max_upload_bytes)
    return await upload.read()
