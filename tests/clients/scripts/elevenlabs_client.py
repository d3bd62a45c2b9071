"""Client script for ElevenLabs' SDK: HTTP, character times, streamed text input and lists."""

from __future__ import annotations

import base64
import sys
from typing import Any
from urllib.parse import urlsplit

from elevenlabs import (
    DialogueInput,
    PronunciationDictionaryVersionLocator,
    ToDialogueSettingsResponseModel,
    VoiceSettings,
)
from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError
from elevenlabs.pronunciation_dictionaries import (
    BodyAddAPronunciationDictionaryV1PronunciationDictionariesAddFromRulesPostRulesItem_Alias as Alias,
)
from elevenlabs.pronunciation_dictionaries import (
    BodyAddAPronunciationDictionaryV1PronunciationDictionariesAddFromRulesPostRulesItem_Phoneme as Phoneme,
)
from elevenlabs.pronunciation_dictionaries.rules import PronunciationDictionaryRule_Alias as MoreAlias
from heard import sound, tell
from tls_tunnel import tls

TEXT = "One sentence at once."
VOICE, MODEL, FORMAT = "clara", "eleven_multilingual_v2", "pcm_24000"
SPOKEN: dict[str, Any] = {"voice_id": VOICE, "model_id": MODEL, "language_code": "en", "seed": 7}


def http(client: ElevenLabs) -> dict[str, Any]:
    speech = client.text_to_speech
    whole = b"".join(speech.convert(text=TEXT, output_format=FORMAT, **SPOKEN))
    streamed = b"".join(speech.stream(text=TEXT, output_format=FORMAT, **SPOKEN))
    mp3 = b"".join(speech.convert(text=TEXT, **SPOKEN))  # MP3 is the client's default format.
    settings = VoiceSettings(speed=1.2, stability=0.6, similarity_boost=0.75, style=0.0, use_speaker_boost=True)
    faster = b"".join(speech.convert(text=TEXT, output_format=FORMAT, voice_settings=settings, **SPOKEN))
    timed = speech.convert_with_timestamps(text=TEXT, output_format=FORMAT, **SPOKEN)
    pieces = list(speech.stream_with_timestamps(text=TEXT, output_format=FORMAT, **SPOKEN))
    alignments = [piece.alignment for piece in pieces if piece.alignment is not None]
    return {
        "whole": sound(whole),
        "streamed": sound(streamed),
        "mp3": len(mp3),
        "faster": sound(faster),
        "timed": sound(base64.b64decode(timed.audio_base_64)),
        "characters": "".join(timed.alignment.characters) if timed.alignment else "",
        "pieces": sound(b"".join(base64.b64decode(piece.audio_base_64) for piece in pieces)),
        "aligned": "".join("".join(each.characters) for each in alignments),
        "end": alignments[-1].character_end_times_seconds[-1],
    }


def dialogue(client: ElevenLabs) -> dict[str, Any]:
    """Generate a dialogue with all four dialogue methods, and return descriptions of it."""
    turns = [("clara", "Is the kettle on?"), ("angus", "It is."), ("clara", "Good.")]
    inputs = [DialogueInput(text=text, voice_id=voice) for voice, text in turns]
    spoken: dict[str, Any] = {"inputs": inputs, "model_id": "eleven_v3", "language_code": "en", "seed": 7}
    calls = client.text_to_dialogue
    settings = ToDialogueSettingsResponseModel(stability=0.5)
    whole = b"".join(calls.convert(output_format=FORMAT, settings=settings, **spoken))
    streamed = b"".join(calls.stream(output_format=FORMAT, **spoken))
    timed = calls.convert_with_timestamps(output_format=FORMAT, **spoken)
    pieces = list(calls.stream_with_timestamps(output_format=FORMAT, **spoken))
    alone = [
        b"".join(client.text_to_speech.convert(voice, text=text, output_format=FORMAT, language_code="en", seed=7))
        for voice, text in turns
    ]
    answers = {
        "whole": sound(whole),
        "streamed": sound(streamed),
        "timed": sound(base64.b64decode(timed.audio_base_64)),
        "pieces": sound(b"".join(base64.b64decode(piece.audio_base_64) for piece in pieces)),
        "alone": sound(bytes(12_000).join(alone)),  # 12,000 zero bytes are a pause of 250 ms.
        "mp3": len(b"".join(calls.convert(**spoken))),
        "characters": "".join(timed.alignment.characters) if timed.alignment else "",
        "segments": [
            [each.voice_id, each.dialogue_input_index, each.character_start_index, each.character_end_index]
            for each in timed.voice_segments
        ],
        "edges": [edge for each in timed.voice_segments for edge in (each.start_time_seconds, each.end_time_seconds)],
        "turns": sorted({each.dialogue_input_index for piece in pieces for each in piece.voice_segments}),
    }
    try:
        b"".join(calls.convert(inputs=[*inputs, DialogueInput(text="No.", voice_id="nobody")], model_id=MODEL))
    except ApiError as error:
        answers["refused"] = [error.status_code, error.body["detail"]["param"]]
    return answers


def realtime(client: ElevenLabs) -> dict[str, Any]:
    words = iter(("The kettle ", "is on. ", "The boat comes back in the ", "evening, when nobody looks at the sea."))
    chunks = list(client.text_to_speech.convert_realtime(VOICE, text=words, model_id=MODEL, output_format=FORMAT))
    return {**sound(b"".join(chunks)), "chunks": len(chunks)}


def refused(client: ElevenLabs) -> list[Any]:
    answers: list[Any] = []
    for ask in (
        lambda: b"".join(client.text_to_speech.convert(text=TEXT, voice_id="nobody", output_format=FORMAT)),
        lambda: list(client.text_to_speech.convert_realtime("nobody", text=iter(["Hello. "]), output_format=FORMAT)),
    ):
        try:
            ask()
        except ApiError as error:
            answers.append([error.status_code, error.body])
    return answers


def dictionaries(client: ElevenLabs) -> dict[str, Any]:
    """Create, change, use and archive pronunciation dictionaries, and return the results.

    One dictionary is created from rules and another from a file.
    """
    kept = client.pronunciation_dictionaries
    made = kept.create_from_rules(name="Our names", rules=[Alias(string_to_replace="Nguyen", alias="Win")])
    newer = kept.rules.add(made.id, rules=[MoreAlias(string_to_replace="Nguyen", alias="Lose")])
    lexicon = b"".join(kept.download(made.id, newer.version_id))
    copy = kept.create_from_file(name="A copy", file=lexicon, description="From a file.")
    removed = kept.rules.remove(copy.id, rule_strings=["Nguyen"])

    def said(text: str, *versions: str | None) -> str:
        locators = [
            PronunciationDictionaryVersionLocator(pronunciation_dictionary_id=made.id, version_id=version)
            for version in versions
        ]
        pieces = client.text_to_speech.convert(
            text=text, output_format=FORMAT, pronunciation_dictionary_locators=locators, **SPOKEN
        )
        return str(sound(b"".join(pieces))["sha256"])

    page = kept.list(page_size=1)
    kept.update(copy.id, archived=True)
    answers = {
        "pairs": [
            [said("Ask Nguyen.", made.version_id), said("Ask Win.")],
            [said("Ask Nguyen.", newer.version_id), said("Ask Lose.")],
            [said("Ask Nguyen.", None), said("Ask Lose.")],
        ],
        "rules": [[rule.string_to_replace, rule.alias] for rule in kept.get(made.id).rules],
        "lexicon": lexicon.decode(),
        "removed": removed.version_rules_num,
        "page": [[one.name for one in page.pronunciation_dictionaries], page.has_more],
        "next": [one.name for one in kept.list(cursor=page.next_cursor).pronunciation_dictionaries],
        "left": [one.name for one in kept.list().pronunciation_dictionaries],
    }
    try:
        phoneme = Phoneme(string_to_replace="bayou", phoneme="ˈbɑju", alphabet="ipa")
        kept.create_from_rules(name="Sounds", rules=[phoneme])
    except ApiError as error:
        answers["refused"] = [error.status_code, error.body["detail"]["message"]]
    return answers


def main(base: str) -> None:
    # The client always uses wss for WebSockets, even if the base URL is http.
    with tls(urlsplit(base).port or 80) as address:
        client = ElevenLabs(base_url=address, api_key="none")
        voices = client.voices.get_all().voices
        found = client.voices.search(page_size=1, search="clara")
        tell(
            http=http(client),
            dialogue=dialogue(client),
            realtime=realtime(client),
            refused=refused(client),
            dictionaries=dictionaries(client),
            voices=[voice.name for voice in voices],
            one=client.voices.get(voices[0].voice_id).name,
            found=[[voice.name for voice in found.voices], found.has_more],
            user=[client.user.get().user_id, client.user.subscription.get().character_count],
            models=[[model.model_id, model.can_do_text_to_speech] for model in client.models.list()],
        )


main(*sys.argv[1:])
