"""Says what is wrong with a field, for every kind of fault that pydantic finds, in words for one sentence."""

from __future__ import annotations

from pydantic import ValidationError

# By pydantic's stable name of the fault; places are filled from its context.
_WHY = {
    "missing": "it is needed",
    "extra_forbidden": "there is no such field",
    "string_type": "it must be a text",
    "string_too_short": "it must have at least {min_length} characters",
    "string_too_long": "it must have at most {max_length} characters",
    "string_pattern_mismatch": "it holds characters that cannot be in it, or too many",
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "finite_number": "it must be a finite number",
    "bool_type": "it must be true or false",
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


def first_fault(error: ValidationError) -> tuple[str | None, str]:
    """The field of the first fault, None for the whole, and what is wrong with it; nothing of what came is quoted."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"])) or None
    if first["type"] == "value_error":  # one of our own, in our words
        return where, str(first["ctx"]["error"])
    return where, _WHY.get(first["type"], "it is not what this field takes").format(**first.get("ctx", {}))
