"""Settings as dataclass fields that are read from and written to environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, fields, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.errors import InvalidSetting

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Group = TypeVar("Group", bound="DataclassInstance")  # Dataclass that has one field for each setting of a group.

TYPE_NAMES = {bool: "a yes or no", int: "a whole number", float: "a number"}  # Names of the types in error messages.

TRUE, FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


def knob(
    default: Any,
    env: str,
    about: str,
    *,
    low: float | None = None,
    high: float | None = None,
    words: tuple[str, ...] = (),
    pattern: tuple[str, str] | None = None,
) -> Any:
    """Declare a setting as a dataclass field.

    Args:
        default: Default value, which also determines the type.
        env: Name of the environment variable.
        about: Description of the setting with its unit.
        low: Minimum value.
        high: Maximum value.
        words: Allowed values.
        pattern: Regular expression that the whole text must match, and its description for error messages.
    """
    rules = {"low": low, "high": high, "words": words, "pattern": pattern}
    return field(default=default, metadata={"env": env, "about": about, **rules})


def override(group: Group, **values: Any) -> Group:
    """Return a copy of a group of settings with some values replaced.

    Values that are None are ignored.

    Raises:
        InvalidSetting: A value is out of its range.
    """
    return _checked(replace(group, **{name: value for name, value in values.items() if value is not None}), {})


def group_from_env(group: type[Group], env: Mapping[str, str], prefix: str = "", base: Group | None = None) -> Group:
    """Read a group of settings from environment variables.

    A missing variable leaves the value in ``base``, or the default.

    Raises:
        InvalidSetting: A variable cannot be parsed or is out of its range.
    """
    values: dict[str, Any] = {}
    named: dict[str, str] = {}
    for knob_ in fields(group):
        name = named[knob_.name] = prefix + knob_.metadata["env"]
        text = env.get(name)
        if text is None:
            continue
        kind: type = type(knob_.default)
        try:
            values[knob_.name] = _truth(text) if kind is bool else kind(text)
        except ValueError:
            raise InvalidSetting(name=name, value=repr(text), why=f"it must be {TYPE_NAMES[kind]}") from None
    return _checked(replace(base or group(), **values), named)


def group_as_env(group: DataclassInstance, prefix: str = "") -> dict[str, str]:
    """Return the settings of a group as environment variables that `group_from_env` can read."""
    return {
        prefix + knob_.metadata["env"]: _word(getattr(group, knob_.name), type(knob_.default))
        for knob_ in fields(group)
    }


def _word(value: Any, kind: type) -> str:
    """Format a value as text that is parsed back to the same value."""
    return str(int(value)) if kind is bool else str(kind(value))


def _truth(text: str) -> bool:
    word = text.strip().lower()
    if word not in TRUE | FALSE:
        raise ValueError
    return word in TRUE


def _checked(group: Group, named: Mapping[str, str]) -> Group:
    """Check the ranges of all settings and return the group.

    Args:
        named: Names of the settings in error messages, by field name.
    """
    for knob_ in fields(group):
        name = named.get(knob_.name, knob_.name)
        value, low, high = getattr(group, knob_.name), knob_.metadata["low"], knob_.metadata["high"]
        if isinstance(value, float) and not isfinite(value):
            raise InvalidSetting(name=name, value=value, why="it must be a finite number")
        words = knob_.metadata["words"]
        if words and value not in words:
            raise InvalidSetting(name=name, value=repr(value), why=f"it must be {' or '.join(words)}")
        pattern = knob_.metadata["pattern"]
        if pattern and not re.fullmatch(pattern[0], value):
            raise InvalidSetting(name=name, value=repr(value), why=f"it must be {pattern[1]}")
        if low is not None and value < low:
            raise InvalidSetting(name=name, value=value, why=f"it must be at least {low}")
        if high is not None and value > high:
            raise InvalidSetting(name=name, value=value, why=f"it must be at most {high}")
    return group
