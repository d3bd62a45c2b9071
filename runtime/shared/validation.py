"""Error messages for pydantic's validation errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

# Message template for each of pydantic's error types. The values come from the context of the error.
_REASONS = {
    "missing": "it is required and was not given",
    "extra_forbidden": "there is no such field",
    "string_type": "it must be a text",
    "string_too_short": "it must have at least {min_length} characters",
    "string_too_long": "it must have at most {max_length} characters",
    "string_pattern_mismatch": "it has characters that are not allowed, or too many",
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "int_parsing_size": "it must be a whole number",
    "float_type": "it must be a number",
    "float_parsing": "it must be a number",
    "finite_number": "it must be a finite number",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "list_type": "it must be a list",
    "dict_type": "it must be an object",
    "model_type": "it must be an object",
    "literal_error": "it must be one of {expected}",
    "too_short": "it must have at least {min_length} entries",
    "too_long": "it must have at most {max_length} entries",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
}


def first_fault(error: ValidationError, value: object) -> tuple[str | None, str]:
    """Return the name of the first invalid field and an error message.

    The name is None if the whole value is invalid. The message never contains the input.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, _fields(first["loc"], value, is_missing=first["type"] == "missing"))) or None
    if first["type"] == "value_error":  # A validator of this program raised the error, so the message is complete.
        return field, str(first["ctx"]["error"])
    kind = first["type"]
    if kind in {"too_short", "too_long"} and first["ctx"]["field_type"] == "Value":
        kind = f"string_{kind}"  # Pydantic reports these kinds without the prefix for texts with a validator.
    return field, _REASONS.get(kind, "it is not a valid value of this field").format(**first.get("ctx", {}))


def _fields(path: tuple[str | int, ...], value: Any, *, is_missing: bool) -> list[str | int]:
    """Return the parts of an error's path that exist in the input.

    A missing field is kept at the end. Pydantic adds other names to the path, such as union members and functions.
    These names are dropped.
    """
    fields: list[str | int] = []
    for at, part in enumerate(path):
        if _has_key(value, part):
            value = value[part]
        elif fields and not (is_missing and at == len(path) - 1):
            continue
        fields.append(part)
    return fields


def _has_key(value: object, part: str | int) -> bool:
    if isinstance(part, int):
        return isinstance(value, list) and part < len(value)
    return isinstance(value, Mapping) and part in value
