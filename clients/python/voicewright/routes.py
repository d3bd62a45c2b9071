"""HTTP routes of the runtime for models, voices, pronunciation dictionaries and tickets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from voicewright.errors import ConnectionLost, SpeechRefused, SpeechTimeout
from voicewright.wire import base_address

if TYPE_CHECKING:
    import httpx

Proxy = str | Literal[True] | None

VOICES = "/v1/audio/voices"
PRONUNCIATIONS = "/v1/audio/pronunciations"


class Routes:
    """HTTP requests that a `Client` can send.

    Every method may raise SpeechRefused or ConnectionLost.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def models(self) -> list[dict[str, Any]]:
        """Return the checkpoints that the runtime has loaded.

        Each item has the modes, speakers and languages of a checkpoint (docs/api.md, Models).
        """
        models: list[dict[str, Any]] = (await self._http.json("GET", "/v1/models"))["data"]
        return models

    async def voices(self, search: str | None = None) -> list[dict[str, Any]]:
        """Return the stored voices, or only those that contain all words of `search`.

        The name, description, tags, language and transcript are searched (docs/api.md, Voices).
        """
        params = None if search is None else {"search": search}
        voices: list[dict[str, Any]] = (await self._http.json("GET", VOICES, params=params))["data"]
        return voices

    async def voice(self, voice: str) -> dict[str, Any]:
        """Return the stored voice with this name or id."""
        return await self._http.json("GET", _of(voice))

    async def add_voice(self, name: str, audio: bytes, *, consent: str, **kwargs: str) -> dict[str, Any]:
        """Store a recording as a voice, which `Client.speak` can then select by its name.

        Args:
            name: Name of the voice.
            audio: Bytes of the recording's audio file.
            consent: Consent of the speaker, as text.
            kwargs: Further form fields, such as ``language`` and ``ref_text`` (exact transcript, for a better clone).
        """
        form = {"name": name, "consent": consent, **kwargs}
        return await self._http.json("POST", VOICES, data=form, files={"audio_sample": ("audio", audio)})

    async def check_voice(self, audio: bytes, ref_text: str | None = None) -> dict[str, Any]:
        """Check the duration and the levels of a recording without storing it.

        The checks are the same as in `add_voice`. The result includes advice for a better recording.
        """
        form = {} if ref_text is None else {"ref_text": ref_text}
        return await self._http.json("POST", f"{VOICES}/check", data=form, files={"audio_sample": ("audio", audio)})

    async def edit_voice(self, voice: str, **changes: Any) -> dict[str, Any]:
        """Change fields of a stored voice: `name`, `description` or `tags`.

        The value None removes the description.
        """
        return await self._http.json("PATCH", _of(voice), json=changes)

    async def export_voice(self, voice: str) -> bytes:
        """Return a stored voice as one file, with its recording, transcript and consent."""
        return await self._http.content("GET", f"{_of(voice)}/file")

    async def import_voice(self, file: bytes, **kwargs: str) -> dict[str, Any]:
        """Store a voice from an exported file.

        Args:
            file: Bytes of the exported file.
            kwargs: Form fields that override values in the file.
        """
        return await self._http.json("POST", VOICES, data=kwargs, files={"file": ("voice", file)})

    async def voice_audio(self, voice: str) -> bytes:
        """Return the recording of a stored voice as a WAV file."""
        return await self._http.content("GET", f"{_of(voice)}/audio")

    async def delete_voice(self, voice: str) -> None:
        """Delete a stored voice permanently."""
        await self._http.content("DELETE", _of(voice))

    async def pronunciation_dictionaries(self) -> list[dict[str, Any]]:
        """Return the stored pronunciation dictionaries, without their entries.

        The fields are described in docs/api.md, Pronunciations.
        """
        dictionaries: list[dict[str, Any]] = (await self._http.json("GET", PRONUNCIATIONS))["data"]
        return dictionaries

    async def pronunciation_dictionary(self, dictionary: str) -> dict[str, Any]:
        """Return the pronunciation dictionary with this id, including its entries."""
        return await self._http.json("GET", _of(dictionary, PRONUNCIATIONS))

    async def add_pronunciation_dictionary(
        self, name: str, pronunciations: Sequence[Mapping[str, Any]], description: str = ""
    ) -> dict[str, Any]:
        """Store a pronunciation dictionary, and return it with its id.

        The option `pronunciation_dictionaries` of `Client.speak` accepts this id.
        """
        body = {"name": name, "description": description, "pronunciations": [*pronunciations]}
        return await self._http.json("POST", PRONUNCIATIONS, json=body)

    async def edit_pronunciation_dictionary(self, dictionary: str, **changes: Any) -> dict[str, Any]:
        """Change fields of a pronunciation dictionary: `name`, `description` or `pronunciations`.

        New `pronunciations` replace all entries of the dictionary.
        """
        return await self._http.json("PATCH", _of(dictionary, PRONUNCIATIONS), json=changes)

    async def delete_pronunciation_dictionary(self, dictionary: str) -> None:
        """Delete a stored pronunciation dictionary permanently."""
        await self._http.content("DELETE", _of(dictionary, PRONUNCIATIONS))

    async def ticket(self) -> str:
        """Return a ticket with which a web page can open one WebSocket session.

        It is valid for a short time. Use tickets if the page must not have the API key (docs/api.md, Keys).
        """
        ticket: str = (await self._http.json("POST", "/v1/session_ticket"))["ticket"]
        return ticket


class Http:
    """HTTP client that imports httpx only when the first request is sent."""

    def __init__(self, url: str, headers: dict[str, str], timeout: float | None, proxy: Proxy) -> None:
        self._url = base_address(url)
        self._headers = headers
        self._timeout = timeout
        self._proxy = proxy
        self._client: httpx.AsyncClient | None = None

    async def content(self, method: str, path: str, **content: Any) -> bytes:
        """Send a request and return the body of the response.

        Args:
            method: HTTP method of the request.
            path: URL path of the route.
            content: Keyword arguments of `httpx.AsyncClient.request`.

        Raises:
            SpeechRefused, ConnectionLost: The runtime refuses the request, or does not respond.
        """
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(
                base_url=self._url,
                headers=self._headers,
                timeout=self._timeout,
                proxy=self._proxy if isinstance(self._proxy, str) else None,
                trust_env=self._proxy is True,
            )
        try:
            answer = await self._client.request(method, path, **content)
        except httpx.TimeoutException:
            raise SpeechTimeout from None
        except httpx.HTTPError:
            raise ConnectionLost from None
        if not answer.is_success:
            raise refusal_of(answer.status_code, answer.content)
        return answer.content

    async def json(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        """Send a request and return the JSON object of the response.

        Raises the same exceptions as `content`.
        """
        fields: dict[str, Any] = json.loads(await self.content(method, path, **content))
        return fields

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def refusal_of(status: int, body: bytes | bytearray) -> SpeechRefused:
    """Create the exception for a request or WebSocket handshake that the runtime has refused.

    Args:
        status: HTTP status of the response.
        body: Body of the response.
    """
    try:
        return SpeechRefused.from_fields(json.loads(body)["error"])
    # The response is not from a Voicewright runtime, but possibly from a proxy.
    except (ValueError, KeyError, TypeError):
        sentence = f"The address answers with HTTP status {status}, and not as a runtime does."
        return SpeechRefused("unknown_route", sentence)


def _of(name: str, route: str = VOICES) -> str:
    return f"{route}/{quote(name, safe='')}"
