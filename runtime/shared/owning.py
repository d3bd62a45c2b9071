"""Stored items of one owner, such as voices, combined with the server's shared items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from runtime.errors import SpeechError


class Store(Protocol):
    """Interface of a store that finds, changes and deletes an item by its id."""

    def find(self, _id: str, /) -> Any: ...

    def change(self, _id: str, _edit: Any, /) -> Any: ...

    def delete(self, _id: str, /) -> None: ...


StoreType = TypeVar("StoreType", bound=Store)
Item = TypeVar("Item")
Edit = TypeVar("Edit")


@dataclass(frozen=True, slots=True)
class Owned(Generic[StoreType, Item, Edit]):
    """Stored items that an owner can use.

    The owner can change the owner's items. The shared items are read-only.

    Thread: any.
    """

    not_yours: ClassVar[type[SpeechError]]  # Error for a request to change a shared item.
    too_many: ClassVar[type[SpeechError]]  # Error for a new item above the limit.

    own: StoreType
    common: StoreType | None = None  # Shared items. None if the shared items are in `own`.
    max_items: int = 0  # Maximum number of own items, or 0 for no limit.

    def find(self, item_id: str) -> Item | None:
        """Return the item with this id, or None.

        The owner's items are searched before the shared items.
        """
        found: Item | None = self.own.find(item_id)
        return self.common.find(item_id) if found is None and self.common is not None else found

    def owns(self, item_id: str) -> bool:
        """True if the item belongs to the owner, who may then change it."""
        return self.own.find(item_id) is not None

    def change(self, item_id: str, edit: Edit) -> Item:
        """Change an item of the owner, and return the changed item.

        Raises:
            SpeechError: The item is shared (`not_yours`), or the store has refused the change.
        """
        self._check_owned(item_id)
        changed: Item = self.own.change(item_id, edit)
        return changed

    def delete(self, item_id: str) -> None:
        """Delete an item of the owner.

        Raises:
            SpeechError: The item is shared (`not_yours`), or the store has refused the deletion.
        """
        self._check_owned(item_id)
        self.own.delete(item_id)

    def _check_owned(self, item_id: str) -> None:
        """Refuse the change of a shared item (the change itself reports a missing item)."""
        if not self.owns(item_id) and self.find(item_id) is not None:
            raise self.not_yours

    def _check_limit(self, count: int) -> None:
        """Raise `too_many` if the owner, who has stored `count` items, may not store one more."""
        if self.max_items and count >= self.max_items:
            raise self.too_many(limit=self.max_items)
