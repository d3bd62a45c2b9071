"""Tests for validation error messages, which name the field and the reason."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from runtime.shared.validation import first_fault


class Inner(BaseModel, extra="forbid"):
    """Test model of a nested object."""

    name: str


class Strict(BaseModel, strict=True, extra="forbid"):
    """Test model of a JSON message."""

    t: float | int | None = None
    either: Annotated[str, AfterValidator(str.strip)] | list[int] | None = None
    short: Annotated[str, AfterValidator(str.strip), Field(max_length=3)] = ""
    few: Annotated[list[int], Field(max_length=3)] = []
    one: Inner | list[Inner] | None = None
    many: list[Inner] = []
    by_name: dict[str, int | str] = {}


class Lax(BaseModel):
    """Test model of URL parameters."""

    seed: int = 0
    speed: float = 1.0
    loud: bool = False


def fault(kind: type[BaseModel], given: dict[str, Any]) -> tuple[str | None, str]:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(given)
    return first_fault(caught.value, given)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"t": "x"}, "t"),
        ({"either": 7}, "either"),
        ({"one": {}}, "one.name"),
        ({"one": 7}, "one"),
        ({"many": [{"name": "a"}, {}]}, "many.1.name"),
        ({"many": [{"name": "a"}, {"name": "b", "more": 1}]}, "many.1.more"),
        ({"by_name": {"a": []}}, "by_name.a"),
        ({"else": 1}, "else"),
    ],
)
def test_error_contains_the_field_name_of_the_client(given: dict[str, Any], where: str) -> None:
    assert fault(Strict, given)[0] == where


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seed": "abc"}, ("seed", "it must be a whole number")),
        ({"seed": "1.5"}, ("seed", "it must be a whole number")),
        ({"seed": "9" * 5000}, ("seed", "it must be a whole number")),
        ({"speed": "fast"}, ("speed", "it must be a number")),
        ({"loud": "very"}, ("loud", "it must be true or false")),
    ],
)
def test_non_numeric_text_error_states_the_expected_type(given: dict[str, Any], said: tuple[str, str]) -> None:
    assert fault(Lax, given) == said


def test_length_error_counts_characters_of_texts_and_entries_of_lists() -> None:
    assert fault(Strict, {"short": "abcd"}) == ("short", "it must have at most 3 characters")
    assert fault(Strict, {"few": [1, 2, 3, 4]}) == ("few", "it must have at most 3 entries")
