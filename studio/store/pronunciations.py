"""Storage of pronunciation dictionaries, one dictionary per owner.

Thread: any.
"""

from __future__ import annotations

import json
from typing import Any

from runtime.settings import Limits
from runtime.shared.text.inline_tags import tag_pattern
from runtime.shared.text.pronouncing import replace_words
from studio.store.database import Database
from studio.store.owned_rows import MakeRoom, OwnedRows, next_version
from studio.store.records import PronunciationFields, TextToSay

TAG_PATTERN = tag_pattern(Limits(), brackets=True)  # Pattern of tags, whose text is not replaced.
_BYTES = "SELECT bytes FROM pronunciations WHERE owner = ?"
EMPTY: dict[str, Any] = {"words": [], "updated_at": None}


class Pronunciations:
    """Pronunciation dictionaries of all owners, each visible only to its owner.

    Raises (every method):
        StorageFailed: The database failed, and nothing was changed.
    """

    def __init__(self, database: Database, make_room: MakeRoom) -> None:
        self._database = database
        self._make_room = make_room
        self._rows = OwnedRows(database, "pronunciations", held="dictionary", key="owner")

    def load_dictionary(self, owner: str) -> dict[str, Any]:
        """Return the pronunciation dictionary of an owner.

        It is empty until it is first stored.
        """
        rows = self._rows.objects("owner = ?", (owner,))
        return rows[0] if rows else EMPTY

    def put(self, owner: str, fields: PronunciationFields, *, address: str | None = None) -> dict[str, Any]:
        """Replace the pronunciation dictionary of an owner, and return the new dictionary.

        The field `updated_at` is the version that the page has read, 0 if it has read no version, or None to replace
        any version.

        Raises:
            ChangedMeanwhile: The stored version differs from the version that the page has read.
            StoreFull: A quota is exceeded.
        """
        size = len(json.dumps(fields.model_dump(), ensure_ascii=False).encode())
        before = sum(found for (found,) in self._database.rows(_BYTES, (owner,)))
        self._make_room(owner, address, size - before, what="The dictionary")
        with self._database.writing("The dictionary") as connection:
            updated_at = next_version(self.load_dictionary(owner)["updated_at"], fields.updated_at, what="dictionary")
            stored = {**fields.model_dump(), "updated_at": updated_at}
            row = (owner, updated_at, json.dumps(stored, ensure_ascii=False), address, size)
            connection.execute("INSERT OR REPLACE INTO pronunciations VALUES (?, ?, ?, ?, ?)", row)
        return stored

    def replace_words(self, owner: str | None, body: TextToSay) -> dict[str, Any]:
        """Replace words of a text by their pronunciations, and count the replacements.

        The entries in the request override those in the owner's stored dictionary.
        """
        rows = [] if owner is None else self.load_dictionary(owner)["words"]
        replacements = [(entry.word, entry.say_as) for entry in body.pronunciations]
        spoken, places = replace_words(
            body.text, [*replacements, *((entry["word"], entry["said"]) for entry in rows)], TAG_PATTERN
        )
        return {"text": spoken, "places": places}
