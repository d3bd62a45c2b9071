"""Every way in which the product says no, drawn as a tree, and the one table of what each means outside.

::

    SpeechError
    ├─ BadRequest            the client can mend it; nothing was started
    │  ├─ InvalidMessage · InvalidConfig · MessageTooLarge · OutOfOrder · TooManyContexts
    │  ├─ SubprotocolRequired · UnknownRoute · MethodNotAllowed · UnsupportedFormat
    │  ├─ Unauthorized · OriginRefused · HostRefused · HostOnly · SignInNeeded · SignInFailed
    │  ├─ EmptyText · TextTooLong · DoesNotFit
    │  ├─ UnknownVoice · UnknownModel · UnsupportedLanguage · UnsupportedLayout · ModeNotServed
    │  ├─ MissingReference · MissingReferenceText · TranscriptMismatch · AddressRefused
    │  ├─ BadReferenceAudio · ReferenceTooShort · ReferenceTooLong
    │  ├─ VoiceNotFound · VoiceNotYours · VoiceNameTaken · VoiceNameOfSpeaker · TooManyVoices
    │  ├─ VoiceFileInvalid · ConsentRequired
    │  └─ NotKept · ChangedMeanwhile · VisitorUnknown · StoreFull · TranscriberMissing
    ├─ Busy                  try again later:
    │  ├─ Overloaded · QueueTimeout · RateLimited · TooManyConnections · Draining · Loading
    │  └─ SpeechSpent · StudioOpening · TranscriberBusy
    ├─ Expired               a clock ran out: SessionIdle · SessionTooLong · SlowReader
    ├─ Failed                our fault, this request only
    │  ├─ NonFiniteOutput · GenerationFailed · RuntimeUnavailable · EngineDead · CheckpointUnusable
    │  └─ StorageFailed · TakeDamaged · TranscriptionFailed
    └─ SetUpError            said to the operator on the command line, never sent to a client
       ├─ CheckpointMissing · CheckpointInvalid · CheckpointTooLarge
       └─ DeviceUnavailable · DeviceMemory · PortInUse · InvalidSetting

An error is raised with the facts of its sentence as keyword arguments and nothing else, so that every
sentence lives in ``TABLE`` and none can carry a client's text, a traceback or a path (but for
``SetUpError``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one error code means on each wire."""

    http: int
    close: int  # WebSocket close code, used where the error ends the socket
    retryable: bool
    sentence: str  # str.format template over the facts of the raise


TABLE: dict[str, Outcome] = {
    # --- the message
    "invalid_json": Outcome(400, 1007, False, "The message is not a JSON object: {why}."),
    "invalid_config": Outcome(400, 1008, False, "{where} is not valid: {why}."),
    "message_too_large": Outcome(
        413, 1009, False, "{what} has {size} bytes; the limit is {limit}. Send less at a time."
    ),
    "out_of_order": Outcome(409, 1008, False, "{what} cannot be used now: {why}."),
    "too_many_contexts": Outcome(
        429,
        1008,
        True,
        "{limit} contexts are in flight on this socket, which is the limit; wait for one to end.",
    ),
    "subprotocol_required": Outcome(
        426, 1002, False, "This route speaks the WebSocket subprotocol {protocol}; offer it when connecting."
    ),
    "unknown_route": Outcome(404, 1008, False, "There is no such route; docs/api.md lists those there are."),
    "method_not_allowed": Outcome(405, 1008, False, "This route takes {allowed} only."),
    "unsupported_format": Outcome(400, 1008, False, "{where} must be one of {known}."),
    # --- who asks
    "unauthorized": Outcome(
        401, 1008, False, "An API key of this server is needed; send it as Authorization: Bearer KEY."
    ),
    "origin_refused": Outcome(
        403, 1008, False, "Pages of this origin may not use the server; its operator can allow it."
    ),
    "host_refused": Outcome(
        403,
        1008,
        False,
        "The server does not go by the name in this address; its operator can add it to VOICEWRIGHT_HOSTS.",
    ),
    "host_only": Outcome(
        403,
        1008,
        False,
        "This is for the host of the studio: open it on the host's own machine, or send the host's key as X-Host-Key.",
    ),
    "sign_in_needed": Outcome(401, 1008, False, "This studio asks you to sign in first: open studio/sign-in."),
    "sign_in_failed": Outcome(502, 1008, False, "Signing in failed: {why}."),
    # --- the text
    "empty_text": Outcome(400, 1008, False, "The text is empty; send at least one letter or digit."),
    "text_too_long": Outcome(
        400, 1008, False, "The text has {count} {unit}; the limit is {limit}. Split it and send the parts."
    ),
    "does_not_fit": Outcome(
        400,
        1008,
        False,
        "The request needs {count} positions ({prompt} prompt, {frames} frames); a slot has {limit}. "
        "Shorten the text or the reference, or lower max_frames.",
    ),
    # --- the voice
    "unknown_voice": Outcome(404, 1008, False, "This checkpoint has no speaker of that name; it has: {known}."),
    "unsupported_language": Outcome(
        400, 1008, False, "This checkpoint does not know that language; use auto or one of: {known}."
    ),
    "unsupported_layout": Outcome(
        400, 1008, False, "This checkpoint does not serve the {layout} text layout; it serves: {known}."
    ),
    "model_not_found": Outcome(404, 1008, False, "No model of that name is loaded; see /v1/models."),
    "model_not_loaded": Outcome(
        404, 1008, False, "No loaded checkpoint serves the mode {mode}; loaded modes: {known}."
    ),
    "missing_ref_audio": Outcome(
        400, 1008, False, "Base mode clones a voice and needs reference audio; send ref_audio."
    ),
    "missing_ref_text": Outcome(
        400,
        1008,
        False,
        "Cloning with a transcript needs the exact words of the reference audio in ref_text; "
        "send it, or set x_vector_only_mode.",
    ),
    "invalid_ref_audio": Outcome(400, 1008, False, "The reference audio cannot be used: {why}."),
    "ref_too_short": Outcome(
        400, 1008, False, "The reference audio lasts {seconds:.2f} s; at least {limit:g} s is needed."
    ),
    "ref_too_long": Outcome(
        400, 1008, False, "The reference audio lasts {seconds:.1f} s; the limit is {limit:g} s. Trim it."
    ),
    "transcript_mismatch": Outcome(
        400,
        1008,
        False,
        "The transcript cannot be that of the recording: {characters} characters for {seconds:.1f} s of speech. "
        "Send the exact words that are spoken.",
    ),
    "address_refused": Outcome(400, 1008, False, "The address in {where} is not opened: {why}."),
    "voice_not_found": Outcome(404, 1008, False, "There is no voice of that name or id; see /v1/audio/voices."),
    "voice_not_yours": Outcome(
        403, 1008, False, "That voice belongs to this server; it can be used, and not changed or deleted."
    ),
    "too_many_voices": Outcome(
        409, 1008, False, "{limit} voices are kept for you, which is the limit; delete one of them first."
    ),
    "voice_name_taken": Outcome(409, 1008, False, "Another voice has that name; choose another or delete that one."),
    "voice_name_of_speaker": Outcome(
        409, 1008, False, "A speaker of a loaded checkpoint has that name; choose another for the voice."
    ),
    "invalid_voice_file": Outcome(400, 1008, False, "The voice file cannot be used: {why}."),
    "consent_required": Outcome(
        400, 1008, False, "A voice is kept only with the speaker's consent; send consent with the upload."
    ),
    # --- what the studio keeps
    "not_found": Outcome(404, 1008, False, "There is no {what} of that id here; it may have been deleted."),
    "changed_meanwhile": Outcome(
        409, 1008, False, "The {what} was changed elsewhere meanwhile; take that version, or keep yours."
    ),
    "visitor_unknown": Outcome(
        401, 1008, False, "The studio knows its visitors by a cookie, and none came; allow cookies for this page."
    ),
    "store_full": Outcome(507, 1008, False, "{what} cannot be kept: {why}."),
    "transcriber_missing": Outcome(
        501, 1008, False, "Recordings are not written down here; the host can install a recogniser (docs/asr.md)."
    ),
    # --- the moment
    "overloaded": Outcome(
        429,
        1013,
        True,
        "All {slots} slots are busy and {waiting} requests wait; try again in {retry_after_s:g} s.",
    ),
    "queue_timeout": Outcome(
        503, 1013, True, "No slot became free within {limit:g} s; try again in {retry_after_s:g} s."
    ),
    "rate_limited": Outcome(429, 1013, True, "Too many requests from you; try again in {retry_after_s:g} s."),
    "too_many_connections": Outcome(
        503, 1013, True, "{limit} connections are open, which is the limit; try again in {retry_after_s:g} s."
    ),
    "draining": Outcome(503, 1013, True, "The server is shutting down and takes no new work; try again soon."),
    "loading": Outcome(503, 1013, True, "The checkpoint is still being loaded; try again in a moment."),
    "speech_spent": Outcome(
        429,
        1013,
        True,
        "Your {limit:g} s of speech for today are spent; there are more in {retry_after_s:g} s, or after signing in "
        "where the studio offers it.",
    ),
    "studio_opening": Outcome(503, 1013, True, "The studio is still being opened; try again in a moment."),
    "idle_timeout": Outcome(408, 1008, True, "Nothing was received for {limit:g} s; open a new session."),
    "session_timeout": Outcome(408, 1008, True, "The session lasted {limit:g} s, which is the limit; open a new one."),
    "slow_reader": Outcome(408, 1008, True, "Nothing of the sound was taken for {limit:g} s; read faster."),
    "transcriber_busy": Outcome(
        429, 1013, True, "Other recordings are being written down; try again in {retry_after_s:g} s."
    ),
    # --- our fault
    "non_finite_output": Outcome(500, 1011, True, "This request produced numbers that are not finite and was stopped."),
    "generation_failed": Outcome(
        500, 1011, True, "Speech could not be made for this request; the cause is in the server's log."
    ),
    "runtime_unavailable": Outcome(503, 1013, True, "The runtime is not answering; it is being started again."),
    "engine_dead": Outcome(503, 1011, True, "The engine has stopped; the process is being started again."),
    "checkpoint_unusable": Outcome(
        500, 1011, False, "The checkpoint for the mode {mode} could not be loaded; the cause is in the server's log."
    ),
    "storage_failed": Outcome(507, 1011, False, "{what} could not be kept: {why}."),
    "take_damaged": Outcome(
        500, 1011, False, "The sound of this take was damaged on the disk and is not what was made; make it anew."
    ),
    "transcription_failed": Outcome(
        500, 1011, False, "The recording could not be written down; the cause is in the server's log."
    ),
    # --- set-up, for the operator's eyes
    "checkpoint_missing": Outcome(500, 1011, False, "{path}: {what} is missing. {hint}"),
    "checkpoint_invalid": Outcome(500, 1011, False, "{path}: {why}."),
    "device_unavailable": Outcome(500, 1011, False, "Device {device} cannot be used: {why}."),
    "device_memory": Outcome(
        500,
        1011,
        False,
        "{slots} slots need {need} GiB, and of the {free} GiB that are free on the device {kept} are not ours to take "
        "(VOICEWRIGHT_MEMORY_SHARE) and {reserve} are kept for graphs and sound.",
    ),
    "checkpoint_too_large": Outcome(
        500,
        1011,
        False,
        "{name} needs {need} GiB for its weights and slots; of the device {device} it may have {have} GiB. Choose a "
        "smaller checkpoint or dtype, or fewer slots.",
    ),
    "port_in_use": Outcome(500, 1011, False, "Port {port} on {host} is in use; choose another with {option}."),
    "invalid_setting": Outcome(500, 1011, False, "{name} is {value}: {why}."),
}


class SpeechError(Exception):
    """Root of the tree. ``code`` is the stable name; ``str(error)`` is the public sentence.

    Raises:
        KeyError: a fact that the sentence needs was not given (a programming error, met by tests).
    """

    code: ClassVar[str] = "generation_failed"

    def __init__(self, *, param: str | None = None, **facts: object) -> None:
        self.param = param
        self.facts = facts
        super().__init__(TABLE[self.code].sentence.format(**facts))

    @property
    def outcome(self) -> Outcome:
        return TABLE[self.code]

    @property
    def told(self) -> dict[str, str | float | bool]:
        """The facts of the sentence for clients that word it themselves, in another language for instance."""
        return {name: fact for name, fact in self.facts.items() if isinstance(fact, str | int | float)}


class BadRequest(SpeechError):
    code = "invalid_config"


class InvalidMessage(BadRequest):
    code = "invalid_json"


class InvalidConfig(BadRequest):
    code = "invalid_config"


class MessageTooLarge(BadRequest):
    code = "message_too_large"


class OutOfOrder(BadRequest):
    code = "out_of_order"


class TooManyContexts(BadRequest):
    code = "too_many_contexts"


class SubprotocolRequired(BadRequest):
    code = "subprotocol_required"


class UnknownRoute(BadRequest):
    code = "unknown_route"


class MethodNotAllowed(BadRequest):
    code = "method_not_allowed"


class UnsupportedFormat(BadRequest):
    code = "unsupported_format"


class Unauthorized(BadRequest):
    code = "unauthorized"


class OriginRefused(BadRequest):
    code = "origin_refused"


class HostRefused(BadRequest):
    code = "host_refused"


class HostOnly(BadRequest):
    code = "host_only"


class SignInNeeded(BadRequest):
    code = "sign_in_needed"


class SignInFailed(BadRequest):
    code = "sign_in_failed"


class EmptyText(BadRequest):
    code = "empty_text"


class TextTooLong(BadRequest):
    code = "text_too_long"


class DoesNotFit(BadRequest):
    code = "does_not_fit"


class UnknownVoice(BadRequest):
    code = "unknown_voice"


class UnsupportedLanguage(BadRequest):
    code = "unsupported_language"


class UnsupportedLayout(BadRequest):
    code = "unsupported_layout"


class UnknownModel(BadRequest):
    code = "model_not_found"


class ModeNotServed(BadRequest):
    code = "model_not_loaded"


class MissingReference(BadRequest):
    code = "missing_ref_audio"


class MissingReferenceText(BadRequest):
    code = "missing_ref_text"


class TranscriptMismatch(BadRequest):
    code = "transcript_mismatch"


class AddressRefused(BadRequest):
    code = "address_refused"


class BadReferenceAudio(BadRequest):
    code = "invalid_ref_audio"


class ReferenceTooShort(BadReferenceAudio):
    code = "ref_too_short"


class ReferenceTooLong(BadReferenceAudio):
    code = "ref_too_long"


class VoiceNotFound(BadRequest):
    code = "voice_not_found"


class VoiceNotYours(BadRequest):
    code = "voice_not_yours"


class TooManyVoices(BadRequest):
    code = "too_many_voices"


class VoiceNameTaken(BadRequest):
    code = "voice_name_taken"


class VoiceNameOfSpeaker(BadRequest):
    code = "voice_name_of_speaker"


class VoiceFileInvalid(BadRequest):
    code = "invalid_voice_file"


class ConsentRequired(BadRequest):
    code = "consent_required"


class TranscriberMissing(BadRequest):
    code = "transcriber_missing"


class NotKept(BadRequest):
    code = "not_found"


class ChangedMeanwhile(BadRequest):
    code = "changed_meanwhile"


class VisitorUnknown(BadRequest):
    code = "visitor_unknown"


class StoreFull(BadRequest):
    code = "store_full"


class Busy(SpeechError):
    code = "overloaded"


class Overloaded(Busy):
    code = "overloaded"


class QueueTimeout(Busy):
    code = "queue_timeout"


class RateLimited(Busy):
    code = "rate_limited"


class TooManyConnections(Busy):
    code = "too_many_connections"


class Draining(Busy):
    code = "draining"


class Loading(Busy):
    code = "loading"


class SpeechSpent(Busy):
    code = "speech_spent"


class StudioOpening(Busy):
    code = "studio_opening"


class TranscriberBusy(Busy):
    code = "transcriber_busy"


class Expired(SpeechError):
    code = "idle_timeout"


class SessionIdle(Expired):
    code = "idle_timeout"


class SessionTooLong(Expired):
    code = "session_timeout"


class SlowReader(Expired):
    code = "slow_reader"


class Failed(SpeechError):
    code = "generation_failed"


class NonFiniteOutput(Failed):
    code = "non_finite_output"


class GenerationFailed(Failed):
    code = "generation_failed"


class RuntimeUnavailable(Failed):
    code = "runtime_unavailable"


class EngineDead(Failed):
    code = "engine_dead"


class CheckpointUnusable(Failed):
    code = "checkpoint_unusable"


class StorageFailed(Failed):
    code = "storage_failed"


class TranscriptionFailed(Failed):
    code = "transcription_failed"


class TakeDamaged(Failed):
    code = "take_damaged"


class SetUpError(SpeechError):
    code = "checkpoint_invalid"


class CheckpointMissing(SetUpError):
    code = "checkpoint_missing"


class CheckpointInvalid(SetUpError):
    code = "checkpoint_invalid"


class DeviceUnavailable(SetUpError):
    code = "device_unavailable"


class DeviceMemory(SetUpError):
    code = "device_memory"


class CheckpointTooLarge(SetUpError):
    code = "checkpoint_too_large"


class PortInUse(SetUpError):
    code = "port_in_use"


class InvalidSetting(SetUpError):
    code = "invalid_setting"
