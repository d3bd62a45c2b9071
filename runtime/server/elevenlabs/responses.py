"""Types of the JSON responses of ElevenLabs' HTTP routes, for the OpenAPI document."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, NotRequired

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from runtime.server.elevenlabs.pronunciations.rules import AliasRule
from runtime.server.elevenlabs.schema import NEUTRAL
from runtime.server.openapi.operations import describe_operation

_UNLIMITED = 2**31 - 1  # Value that means "unlimited" in ElevenLabs' API.
ACCOUNT_NAME = "voicewright"  # Name of the account that all clients share.


class ElevenLabsResponse(BaseModel):
    """Base class of responses in ElevenLabs' format.

    A field that this server does not support has a default, which is sent to the client.
    """

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Detail(TypedDict):
    """Object `detail` of an error response in ElevenLabs' format."""

    status: str
    message: str
    request_id: str
    param: str | None
    retryable: bool


class ElevenLabsError(TypedDict):
    """Error response in ElevenLabs' format."""

    detail: Detail


# Decorator `describe_operation` for errors in ElevenLabs' format.
describe_elevenlabs = partial(describe_operation, refused_as=ElevenLabsError)


class CharacterTimes(TypedDict):
    """Estimated times of characters, in seconds from the start of the audio."""

    characters: list[str]
    character_start_times_seconds: list[float]
    character_end_times_seconds: list[float]
    estimated: bool


class TimedAudio(TypedDict):
    """Response with audio and the times of its characters."""

    audio_base64: str
    alignment: CharacterTimes | None
    normalized_alignment: CharacterTimes | None


class VoiceSegment(TypedDict):
    """Dialogue turn in a piece of audio: its times and its range of characters.

    The character indices are relative to the start of the piece.
    """

    voice_id: str
    start_time_seconds: float
    end_time_seconds: float
    character_start_index: int
    character_end_index: int
    dialogue_input_index: int


class TimedDialogue(TimedAudio):
    """Response with the audio of a dialogue and the times of its characters and turns."""

    voice_segments: list[VoiceSegment]


class ElevenLabsVoiceSettings(ElevenLabsResponse):
    """Voice settings in ElevenLabs' format.

    Only `stability` and `speed` have an effect.
    """

    stability: float = NEUTRAL
    similarity_boost: float = 1.0
    style: float = 0.0
    use_speaker_boost: bool = False
    speed: float = 1.0


class ElevenLabsVoice(ElevenLabsResponse):
    """Voice in ElevenLabs' format."""

    voice_id: str
    name: str
    category: str
    description: str
    labels: dict[str, str]
    samples: None = None
    fine_tuning: None = None
    preview_url: None = None
    available_for_tiers: list[Any] = []
    settings: None = None
    sharing: None = None
    high_quality_base_model_ids: list[Any] = []
    verified_languages: list[Any] = []
    is_owner: bool
    is_legacy: bool = False
    is_mixed: bool = False
    created_at_unix: int


class ElevenLabsVoices(TypedDict):
    """Response with a list of all voices."""

    voices: list[ElevenLabsVoice]


class ElevenLabsVoicePage(ElevenLabsVoices):
    """One page of the list of voices."""

    has_more: bool
    total_count: int
    next_page_token: str | None


class ElevenLabsLanguage(TypedDict):
    """Language of a model in ElevenLabs' format."""

    language_id: str
    name: str


class ElevenLabsModel(ElevenLabsResponse):
    """Checkpoint in ElevenLabs' format for models."""

    model_id: str
    name: str
    description: str
    can_do_text_to_speech: bool = True
    can_do_voice_conversion: bool = False
    can_be_finetuned: bool = False
    can_use_style: bool = False
    can_use_speaker_boost: bool = False
    serves_pro_voices: bool = False
    requires_alpha_access: bool = False
    token_cost_factor: float = 0.0
    max_characters_request_free_user: int
    max_characters_request_subscribed_user: int
    maximum_text_length_per_request: int
    languages: list[ElevenLabsLanguage]


class ElevenLabsPrice(ElevenLabsResponse):
    """Price in ElevenLabs' format, which is always zero on this server."""

    amount: str = "0"
    currency: str = "usd"


class ElevenLabsUsersSubscription(ElevenLabsResponse):
    """Subscription of a user in ElevenLabs' format.

    Characters are neither counted nor limited.
    """

    tier: str = "free"
    status: str = "free"
    character_count: int = 0
    character_limit: int = _UNLIMITED
    max_character_limit_extension: None = None
    max_credit_limit_extension: str = "unlimited"
    can_extend_character_limit: bool = False
    allowed_to_extend_character_limit: bool = False
    next_character_count_reset_unix: None = None
    voice_slots_used: int
    voice_limit: int = _UNLIMITED
    can_extend_voice_limit: bool = False
    max_voice_add_edits: None = None
    voice_add_edit_counter: int = 0
    professional_voice_slots_used: int = 0
    professional_voice_slots_used_in_workspace: int = 0
    professional_voice_limit: int = 0
    can_use_instant_voice_cloning: bool = False
    can_use_professional_voice_cloning: bool = False
    currency: None = None
    current_overage: ElevenLabsPrice = ElevenLabsPrice()
    billing_period: None = None
    character_refresh_period: None = None


class ElevenLabsSubscription(ElevenLabsUsersSubscription):
    """Subscription with a list of invoices, which is always empty on this server."""

    next_invoice: None = None
    open_invoices: list[Any] = []
    has_open_invoices: bool = False


class ElevenLabsUser(ElevenLabsResponse):
    """Account in ElevenLabs' format.

    All clients share one account.
    """

    user_id: str = ACCOUNT_NAME
    workspace_id: str = ACCOUNT_NAME
    subscription: ElevenLabsUsersSubscription
    is_new_user: bool = False
    can_use_delayed_payment_methods: bool = False
    is_onboarding_completed: bool = True
    is_onboarding_checklist_completed: bool = True
    created_at: int = 0
    seat_type: str = "workspace_member"


class ElevenLabsDictionary(TypedDict):
    """Stored pronunciation dictionary in ElevenLabs' format, without its rules."""

    id: str
    latest_version_id: str
    latest_version_rules_num: int
    name: str
    permission_on_resource: str
    created_by: str
    creation_time_unix: int
    archived_time_unix: int | None
    description: str | None


class ElevenLabsWholeDictionary(ElevenLabsDictionary):
    """Pronunciation dictionary with the rules of its latest version."""

    rules: list[AliasRule]


class ElevenLabsDictionaryPage(TypedDict):
    """One page of the list of pronunciation dictionaries."""

    pronunciation_dictionaries: list[ElevenLabsDictionary]
    next_cursor: str | None
    has_more: bool


class ElevenLabsAddedDictionary(TypedDict):
    """New pronunciation dictionary with its first version."""

    id: str
    name: str
    created_by: str
    creation_time_unix: int
    version_id: str
    version_rules_num: int
    description: str | None
    permission_on_resource: str
    notes: NotRequired[Annotated[list[str], Field(description="extension: words of the file that were left out")]]


class ElevenLabsChangedRules(TypedDict):
    """Version of a pronunciation dictionary after a change of its rules.

    If the rules are the same as before, no new version is created.
    """

    id: str
    version_id: str
    version_rules_num: int
