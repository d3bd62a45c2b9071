"""Error classes of the runtime, with error codes, HTTP statuses and WebSocket close codes.

::

    SpeechError
    ├─ BadRequest            the client can correct it; nothing was started
    │  ├─ InvalidMessage · InvalidConfig · MessageTooLarge · OutOfOrder · TooManyContexts
    │  ├─ SubprotocolRequired · UnknownRoute · WebSocketOnly · MethodNotAllowed · UnsupportedFormat
    │  ├─ MalformedRequest · HeadersTooLarge · UnsupportedEncoding · TooManyFrames
    │  ├─ Unauthorized · OriginRefused · HostRefused
    │  ├─ EmptyText · UnreadableText · TextTooLong · DoesNotFit · TagTooLong · PauseTooLong · PausesTooLong
    │  ├─ UnknownVoice · UnknownModel · UnsupportedLanguage · UnsupportedLayout · ModeNotServed
    │  ├─ MissingReference · MissingReferenceText · TranscriptMismatch · AddressRefused
    │  ├─ BadReferenceAudio · ReferenceTooShort · ReferenceTooLong
    │  ├─ VoiceNotFound · VoiceNotYours · VoiceNameTaken · VoiceNameOfSpeaker · VoiceNameLooksAlike
    │  ├─ TooManyVoices · InvalidBlend · BlendForbidden
    │  ├─ VoiceFileInvalid · NoRecording · ConsentRequired
    │  └─ DictionaryNotFound · DictionaryNotYours · TooManyDictionaries
    ├─ Busy                  try again later:
    │  ├─ Overloaded · QueueTimeout · RateLimited · TooManyConnections · Draining · Loading · NoReplica · ReplicaLost
    │  └─ SpeechSpent
    ├─ Expired               a timeout passed: SessionIdle · SessionTooLong · BodyTooSlow · SlowReader
    ├─ Failed                a fault of the server, in this request only
    │  └─ NonFiniteOutput · GenerationFailed · EngineDead · CheckpointUnusable · StorageFailed
    └─ SetUpError            shown to the operator on the command line, never sent to a client
       ├─ CheckpointMissing · CheckpointInvalid · CheckpointUnsupported · CheckpointTooLarge
       ├─ HubUnreachable · HubRefused · DiskFull · DownloadDamaged
       └─ DeviceUnavailable · DeviceMemory · AttentionRefused · PortInUse · InvalidSetting

Each class has a template for its message. An error is raised with keyword arguments that fill the template. Therefore a
message never contains a client's text, a traceback or (except in ``SetUpError``) a path. The studio's own errors are in
studio/errors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor
from typing import Any, ClassVar

_ROUNDING_ERROR = 1e-6


class SpeechError(Exception):
    """Base class of all errors of the runtime.

    ``code`` is the stable error code, and ``str(error)`` is the public message.

    Raises:
        KeyError: A value that the message template needs is missing, which is a programming error.
    """

    code: ClassVar[str]
    http_status: ClassVar[int] = 400
    close_code: ClassVar[int] = 1008  # WebSocket close code if this error ends the connection.
    retryable: ClassVar[bool] = False
    sentence: ClassVar[str]  # Template for `str.format`, which gets the keyword arguments of the error.

    def __init__(self, *, param: str | None = None, **facts: object) -> None:
        self.param = param
        self.facts = facts
        super().__init__(self.sentence.format(**facts))

    def __reduce__(self) -> tuple[Callable[..., SpeechError], tuple[object, ...]]:
        """Support pickling, because the engine's process sends errors to the server's process."""
        return _rebuild, (type(self), self.param, self.facts)

    @property
    def public_facts(self) -> dict[str, str | float | bool]:
        """Return the values in the error message by name, for clients that translate the message."""
        return {name: fact for name, fact in self.facts.items() if isinstance(fact, str | int | float)}


def _rebuild(kind: type[SpeechError], param: str | None, facts: dict[str, object]) -> SpeechError:
    return kind(param=param, **facts)


class BadRequest(SpeechError):
    """Error that the client can correct.

    No work was started.
    """


class InvalidMessage(BadRequest):
    code = "invalid_json"
    close_code = 1007
    sentence = "The message is not a JSON object: {why}."


class InvalidConfig(BadRequest):
    code = "invalid_config"
    sentence = "{where} is not valid: {why}."


class MoreThan(int):
    """Lower bound for the size of data that was not read to its end.

    The number is formatted as "more than N".
    """

    def __format__(self, spec: str) -> str:
        return f"more than {int(self):{spec}}"


class MessageTooLarge(BadRequest):
    """Error for data that exceeds a size limit.

    ``size`` is a `MoreThan` if the data was not read to its end.
    """

    code = "message_too_large"
    http_status = 413
    close_code = 1009
    sentence = "{what} has {size} bytes; the limit is {limit}. Send less at a time."


class OutOfOrder(BadRequest):
    code = "out_of_order"
    http_status = 409
    sentence = "{what} cannot be used now: {why}."


class TooManyContexts(BadRequest):
    code = "too_many_contexts"
    http_status = 429
    retryable = True
    sentence = "{limit} contexts are in flight on this socket, which is the limit; wait for one to end."


class SubprotocolRequired(BadRequest):
    code = "subprotocol_required"
    http_status = 426
    close_code = 1002
    sentence = "This route speaks the WebSocket subprotocol {protocol}; offer it when connecting."


class UnknownRoute(BadRequest):
    code = "unknown_route"
    http_status = 404
    # The value of `hint` is empty or starts with a space.
    sentence = "There is no such route; /openapi lists those of HTTP.{hint}"


class WebSocketOnly(BadRequest):
    code = "websocket_only"
    http_status = 426
    sentence = "This route is a WebSocket; connect to it as one (ws:// or wss://)."


class MethodNotAllowed(BadRequest):
    code = "method_not_allowed"
    http_status = 405
    sentence = "This route supports {allowed} only."


class MalformedRequest(BadRequest):
    code = "malformed_request"
    close_code = 1002
    sentence = "The request is not valid HTTP/1.1: {why}."


class HeadersTooLarge(BadRequest):
    code = "headers_too_large"
    http_status = 431
    sentence = (
        "The headers, trailers or chunk lines of the request are too large: the limit is {max_fields} headers "
        "or trailers and {max_bytes} bytes. Send fewer or shorter headers, and fewer but larger chunks."
    )


class UnsupportedEncoding(BadRequest):
    code = "unsupported_encoding"
    http_status = 415
    sentence = "The body is compressed, which no route supports. Send it without Content-Encoding."


class TooManyFrames(BadRequest):
    code = "too_many_frames"
    sentence = "Too many WebSocket frames are almost empty; the limit is {limit} at once. Send whole messages."


class UnsupportedFormat(BadRequest):
    code = "unsupported_format"
    sentence = "{where} must be one of {known}."


class Unauthorized(BadRequest):
    code = "unauthorized"
    http_status = 401
    sentence = "An API key of this server is needed; send it as Authorization: Bearer KEY."


class OriginRefused(BadRequest):
    code = "origin_refused"
    http_status = 403
    sentence = (
        "Pages of this origin may not use the server; its operator can add it to VOICEWRIGHT_ORIGINS of the runtime."
    )


class HostRefused(BadRequest):
    code = "host_refused"
    http_status = 403
    sentence = "The server does not accept the host name in this address; its operator can add it to VOICEWRIGHT_HOSTS."


class EmptyText(BadRequest):
    code = "empty_text"
    sentence = "The text is empty; send at least one character that is not white space."


class UnreadableText(BadRequest):
    code = "text_not_readable"
    sentence = (
        "This checkpoint reads English letters only, and the text has none; write it in English letters or use a "
        "published checkpoint."
    )


class TextTooLong(BadRequest):
    code = "text_too_long"
    sentence = "The text has {count} {unit}; the limit is {limit}. Split it and send the parts."


class DoesNotFit(BadRequest):
    code = "does_not_fit"
    sentence = (
        "The request needs {count} positions ({prompt} prompt, {frames} frames); a slot has {limit}. Shorten the "
        "text or the reference, or lower max_frames."
    )


class TagTooLong(BadRequest):
    code = "tag_too_long"
    sentence = "A tag in the text has more than {limit} characters; shorten it, or send the text without tags."


class PauseTooLong(BadRequest):
    code = "pause_too_long"
    sentence = "A pause in the text lasts {seconds:.10g} s; the limit is {limit:g} s."


class PausesTooLong(BadRequest):
    code = "pauses_too_long"
    sentence = "The pauses in the text last more than {limit:g} s in all; shorten them, or send the text in parts."


class UnknownVoice(BadRequest):
    code = "unknown_voice"
    http_status = 404
    sentence = "There is no voice of that name here; there are: {known}."


class UnsupportedLanguage(BadRequest):
    code = "unsupported_language"
    sentence = "This checkpoint does not know that language; use auto or one of: {known}."


class UnsupportedLayout(BadRequest):
    code = "unsupported_layout"
    sentence = "This checkpoint does not serve the {layout} text layout; it serves: {known}."


class UnknownModel(BadRequest):
    code = "model_not_found"
    http_status = 404
    sentence = "No model of that name is loaded; see /v1/models."


class ModeNotServed(BadRequest):
    code = "model_not_loaded"
    http_status = 404
    sentence = "No loaded checkpoint serves the mode {mode}; loaded modes: {known}."


class MissingReference(BadRequest):
    code = "missing_ref_audio"
    sentence = "Base mode clones a voice and needs reference audio; send ref_audio."


class MissingReferenceText(BadRequest):
    code = "missing_ref_text"
    sentence = (
        "Cloning with a transcript needs the exact words of the reference audio in ref_text; send it, or set "
        "x_vector_only_mode."
    )


class TranscriptMismatch(BadRequest):
    code = "transcript_mismatch"
    sentence = (
        "The transcript cannot be that of the recording: {characters} characters for {seconds:.1f} s of speech. Send "
        "the exact words that are spoken."
    )


class AddressRefused(BadRequest):
    code = "address_refused"
    sentence = "The address in {where} is not opened: {why}."


class BadReferenceAudio(BadRequest):
    code = "invalid_ref_audio"
    sentence = "The reference audio cannot be used: {why}."


class ReferenceTooShort(BadReferenceAudio):
    code = "ref_too_short"
    sentence = "The reference audio lasts {seconds:.2f} s; at least {limit:g} s is needed."

    def __init__(self, **facts: Any) -> None:
        # The duration is rounded down, so that the message never shows a duration equal to the limit.
        super().__init__(**facts | {"seconds": floor(facts["seconds"] * 100 + _ROUNDING_ERROR) / 100})


class ReferenceTooLong(BadReferenceAudio):
    code = "ref_too_long"
    sentence = "The reference audio lasts {seconds:.1f} s; the limit is {limit:g} s. Trim it."

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts | {"seconds": ceil(facts["seconds"] * 10 - _ROUNDING_ERROR) / 10})


class VoiceNotFound(BadRequest):
    code = "voice_not_found"
    http_status = 404
    sentence = "No stored voice has that name or id; /v1/audio/voices lists all voices."


class InvalidBlend(BadRequest):
    code = "invalid_blend"
    sentence = "A blend names two voices with weights from 0 to 1 that sum to 1, such as angus:0.6+clara:0.4."


class BlendForbidden(BadRequest):
    code = "blend_forbidden"
    http_status = 403
    sentence = "The speaker of {name} has not consented to blends with other voices."


class VoiceNotYours(BadRequest):
    code = "voice_not_yours"
    http_status = 403
    sentence = "That voice belongs to this server; it can be used, but not changed or deleted."


class TooManyVoices(BadRequest):
    code = "too_many_voices"
    http_status = 409
    sentence = "{limit} voices are stored for you, which is the limit; delete one of them first."


class VoiceNameTaken(BadRequest):
    code = "voice_name_taken"
    http_status = 409
    sentence = "Another voice has that name; choose another or delete that one."


class VoiceNameOfSpeaker(BadRequest):
    code = "voice_name_of_speaker"
    http_status = 409
    sentence = "A speaker of a loaded checkpoint has that name; choose another for the voice."


class VoiceNameLooksAlike(BadRequest):
    code = "voice_name_looks_alike"
    http_status = 409
    sentence = "The name looks like that of another voice, {other}; choose another."


class VoiceFileInvalid(BadRequest):
    code = "invalid_voice_file"
    sentence = "The voice file cannot be used: {why}."


class NoRecording(BadRequest):
    code = "no_recording"
    http_status = 404
    sentence = "This voice was imported without its recording."


class ConsentRequired(BadRequest):
    code = "consent_required"
    sentence = "A voice is stored only with the speaker's consent; send consent with the upload."


class DictionaryNotFound(BadRequest):
    code = "pronunciation_dictionary_not_found"
    http_status = 404
    sentence = "There is no {what}; see /v1/audio/pronunciations."


class DictionaryNotYours(BadRequest):
    code = "pronunciation_dictionary_not_yours"
    http_status = 403
    sentence = "That pronunciation dictionary belongs to this server; it can be used, but not changed or deleted."


class TooManyDictionaries(BadRequest):
    code = "too_many_pronunciation_dictionaries"
    http_status = 409
    sentence = "{limit} pronunciation dictionaries are stored for you, which is the limit; delete one of them first."


class Busy(SpeechError):
    """Temporary error that the client may retry."""

    http_status = 429
    close_code = 1013
    retryable = True


class Overloaded(Busy):
    code = "overloaded"
    sentence = "All {slots} slots are busy and {waiting} requests wait; try again in {retry_after_s:g} s."


class QueueTimeout(Busy):
    code = "queue_timeout"
    http_status = 503
    sentence = "No slot became free within {limit:g} s; try again in {retry_after_s:g} s."


class RateLimited(Busy):
    code = "rate_limited"
    sentence = "Too many requests from you; try again in {retry_after_s:g} s."


class TooManyConnections(Busy):
    code = "too_many_connections"
    http_status = 503
    sentence = "{limit} connections are open, which is the limit; try again in {retry_after_s:g} s."


class Draining(Busy):
    code = "draining"
    http_status = 503
    sentence = "The server is shutting down and accepts no new requests; try again soon."


class Loading(Busy):
    code = "loading"
    http_status = 503
    sentence = "The checkpoint is still being loaded; try again in a moment."


class NoReplica(Busy):
    code = "no_replica"
    http_status = 503
    sentence = "No replica of the cluster can be reached; try again in {retry_after_s:g} s."


class ReplicaLost(Busy):
    code = "replica_lost"
    http_status = 503
    sentence = (
        "The replica of the cluster that had this request ended without an answer; try again in {retry_after_s:g} s."
    )


class SpeechSpent(Busy):
    code = "speech_spent"
    sentence = (
        "You have used your {limit:g} s of speech for today; you get more in {retry_after_s:g} s, or after signing in "
        "if the studio offers it."
    )


class Expired(SpeechError):
    """Error for a session, a request body or a slow reader whose timeout has passed."""

    http_status = 408
    retryable = True


class SessionIdle(Expired):
    code = "idle_timeout"
    sentence = "Nothing was received for {limit:g} s; open a new session."


class SessionTooLong(Expired):
    code = "session_timeout"
    sentence = "The session lasted {limit:g} s, which is the limit; open a new one."


class BodyTooSlow(Expired):
    code = "body_too_slow"
    sentence = "The body arrived at less than {limit} bytes per second. Send it faster."


class SlowReader(Expired):
    code = "slow_reader"
    sentence = "No audio was read for {limit:g} s; read faster."


class Failed(SpeechError):
    """Server error that affects only this request."""

    http_status = 500
    close_code = 1011
    retryable = True


class NonFiniteOutput(Failed):
    code = "non_finite_output"
    sentence = "This request produced numbers that are not finite and was stopped."


class GenerationFailed(Failed):
    code = "generation_failed"
    sentence = "Speech could not be generated for this request; the cause is in the server's log."


class EngineDead(Failed):
    code = "engine_dead"
    http_status = 503
    sentence = "The engine has stopped; the process is being restarted."


class CheckpointUnusable(Failed):
    code = "checkpoint_unusable"
    retryable = False
    sentence = "The checkpoint for the mode {mode} could not be loaded; the cause is in the server's log."


class StorageFailed(Failed):
    code = "storage_failed"
    http_status = 507
    retryable = False
    sentence = "{what} could not be stored: {why}."


class SetUpError(SpeechError):
    """Error for the operator, shown on the command line and never sent to a client."""

    http_status = 500
    close_code = 1011


class CheckpointMissing(SetUpError):
    code = "checkpoint_missing"
    sentence = "{path}: {what} is missing. {hint}"


def no_folder(reference: str, *, is_file: bool) -> CheckpointMissing:
    """Return the error for a checkpoint reference that is neither a folder nor a Hub id."""
    if is_file:
        hint = "It is a file; give the folder of a checkpoint or a Hub id (owner/name)."
        return CheckpointMissing(path=reference, what="a folder of this name", hint=hint)
    return CheckpointMissing(path=reference, what="the folder", hint="Give a folder or a Hub id (owner/name).")


class CheckpointInvalid(SetUpError):
    code = "checkpoint_invalid"
    sentence = "{path}: {why}."


class CheckpointUnsupported(SetUpError):
    code = "checkpoint_unsupported"
    sentence = "{path}: it cannot be served: {why}."


class DeviceUnavailable(SetUpError):
    code = "device_unavailable"
    sentence = "Device {device} cannot be used: {why}."


class DeviceMemory(SetUpError):
    code = "device_memory"
    sentence = (
        "{slots} slots need {need} GiB. Of the {free} GiB that are free on the device, {kept} must stay free "
        "(VOICEWRIGHT_MEMORY_SHARE) and {reserve} are reserved for graphs and audio."
    )


class AttentionRefused(SetUpError):
    code = "attention_refused"
    sentence = "The NPU's attention operator was not called because its result would be wrong: {why}."


class CheckpointTooLarge(SetUpError):
    code = "checkpoint_too_large"
    sentence = (
        "{name} needs {need} GiB for its weights and slots; {have} GiB of the device {device} are available. Choose a "
        "smaller checkpoint or dtype, or fewer slots."
    )


class HubUnreachable(SetUpError):
    code = "hub_unreachable"
    sentence = (
        "The Hub ({where}) cannot be reached: {why}. Check this machine's network and resume; downloaded data is kept."
    )


class HubRefused(SetUpError):
    code = "hub_refused"
    sentence = "{name} cannot be fetched: {why}."


class DiskFull(SetUpError):
    code = "disk_full"
    sentence = (
        "The download needs {need} GB of disk, and {free} GB are free for it at {path}; make room there, or name a "
        "larger disk with HF_HOME."
    )


class DownloadDamaged(SetUpError):
    code = "download_damaged"
    sentence = "{name} does not match the Hub's size or checksum and was deleted; fetch it again."


class PortInUse(SetUpError):
    code = "port_in_use"
    sentence = "Port {port} on {host} is in use; choose another with {option}."


class InvalidSetting(SetUpError):
    code = "invalid_setting"
    sentence = "{name} is {value}: {why}."
