"""Error classes that only the studio raises, for example for visitors and storage."""

from __future__ import annotations

from runtime.errors import BadRequest, Busy, Failed


class HostOnly(BadRequest):
    code = "host_only"
    http_status = 403
    sentence = (
        "This is for the host of the studio: open it on the host's own machine as the user who started the studio, or "
        "send the host's key as X-Host-Key."
    )


class SignInNeeded(BadRequest):
    code = "sign_in_needed"
    http_status = 401
    sentence = "This studio asks you to sign in first: open studio/sign-in."


class SignInFailed(BadRequest):
    code = "sign_in_failed"
    http_status = 502
    sentence = "Signing in failed: {why}."


class VisitorUnknown(BadRequest):
    code = "visitor_unknown"
    http_status = 401
    sentence = "The studio identifies visitors by a cookie, and the request has none; allow cookies for this page."


class StudioOpening(Busy):
    code = "studio_opening"
    http_status = 503
    sentence = "The studio is still being opened; try again in a moment."


class RuntimeUnavailable(Busy):
    code = "runtime_unavailable"
    http_status = 503
    sentence = "The runtime is not answering; try again in a moment."


class NotKept(BadRequest):
    code = "not_found"
    http_status = 404
    sentence = "There is no {what} with that id here; it may have been deleted."


class ChangedMeanwhile(BadRequest):
    code = "changed_meanwhile"
    http_status = 409
    sentence = "The {what} was changed elsewhere in the meantime; take that version, or keep yours."


class StoreFull(BadRequest):
    code = "store_full"
    http_status = 507
    sentence = "{what} cannot be kept: {why}."


class StoreBusy(Busy):
    code = "store_busy"
    http_status = 503
    sentence = "{what} cannot be kept or read now: another process uses the database; try again in {retry_after_s:g} s."


class TakeDamaged(Failed):
    code = "take_damaged"
    retryable = False
    sentence = "The audio of this take was damaged on the disk; generate the take again."


class SharingOff(BadRequest):
    code = "sharing_off"
    http_status = 403
    sentence = "Takes are not shared by links here; the host can allow it (VOICEWRIGHT_SHARE_LINKS)."


class SharingBusy(Busy):
    code = "sharing_busy"
    sentence = "Other shared takes are being prepared; try again in {retry_after_s:g} s."


class DocumentUnreadable(BadRequest):
    code = "document_unreadable"
    http_status = 422
    sentence = "This document cannot be read: {why}."


class MemoryTooSmall(BadRequest):
    code = "memory_too_small"
    http_status = 409
    sentence = (
        "These checkpoints need {need} GB of memory together, and this machine has {have} GB; choose fewer or smaller "
        "ones."
    )


class TranscriberMissing(BadRequest):
    code = "transcriber_missing"
    http_status = 501
    sentence = "Automatic transcription is not available here; the host can install a recogniser (docs/guide.md)."


class TranscriberBusy(Busy):
    code = "transcriber_busy"
    sentence = "Other recordings are being transcribed; try again in {retry_after_s:g} s."


class TranscriptionFailed(Failed):
    code = "transcription_failed"
    retryable = False
    sentence = "The recording could not be transcribed; the server's log has the cause."
