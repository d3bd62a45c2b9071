"""Response types of Cartesia's HTTP routes, for the OpenAPI document."""

from __future__ import annotations

from typing_extensions import TypedDict


class CartesiaError(TypedDict):
    """A refusal as Cartesia's clients read it; ``param`` and ``retryable`` are ours."""

    title: str
    message: str
    error_code: str
    request_id: str
    retryable: bool
    param: str | None


class Locale(TypedDict):
    """A language of a voice."""

    locale: str
    is_native: bool


class CartesiaVoiceEntry(TypedDict):
    """A voice as Cartesia's clients read it."""

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
    """A page of them."""

    data: list[CartesiaVoiceEntry]
    has_more: bool


class CartesiaDictionaryItem(TypedDict):
    """A word, and how it is said."""

    text: str
    alias: str
    case_sensitive: bool


class CartesiaDictionary(TypedDict):
    """A kept pronunciation dictionary as Cartesia's clients read it."""

    id: str
    name: str
    owner_id: str
    pinned: bool
    created_at: str
    items: list[CartesiaDictionaryItem]


class CartesiaDictionaryPage(TypedDict):
    """A page of them."""

    data: list[CartesiaDictionary]
    has_more: bool
