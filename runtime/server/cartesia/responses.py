"""Types of the JSON responses of Cartesia's HTTP routes, for the OpenAPI document."""

from __future__ import annotations

from functools import partial

from typing_extensions import TypedDict

from runtime.server.openapi.operations import describe_operation


class CartesiaError(TypedDict):
    """Error response in Cartesia's format.

    ``param`` and ``retryable`` are extensions to Cartesia's API.
    """

    title: str
    message: str
    error_code: str
    request_id: str
    retryable: bool
    param: str | None


# Decorator `describe_operation` for errors in Cartesia's format.
describe_cartesia = partial(describe_operation, refused_as=CartesiaError)


class Locale(TypedDict):
    """Language of a voice."""

    locale: str
    is_native: bool


class CartesiaVoiceEntry(TypedDict):
    """Voice in Cartesia's format."""

    id: str
    name: str
    tagline: str
    description: str
    language: str
    locales: list[Locale]
    created_at: str
    access: str
    visibility: str
    is_owner: bool
    is_public: bool


class CartesiaVoicePage(TypedDict):
    """One page of the list of voices."""

    data: list[CartesiaVoiceEntry]
    has_more: bool


class CartesiaDictionaryItem(TypedDict):
    """Item of a pronunciation dictionary: a word, and the text that is spoken instead."""

    text: str
    alias: str
    case_sensitive: bool


class CartesiaDictionary(TypedDict):
    """Stored pronunciation dictionary in Cartesia's format."""

    id: str
    name: str
    owner_id: str
    pinned: bool
    created_at: str
    items: list[CartesiaDictionaryItem]


class CartesiaDictionaryPage(TypedDict):
    """One page of the list of pronunciation dictionaries."""

    data: list[CartesiaDictionary]
    has_more: bool
