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


def setting(
    default: Any,
    env: str,
    about: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    pattern: tuple[str, str] | None = None,
) -> Any:
    """Declare a setting as a dataclass field.

    Args:
        default: Default value, which also determines the type.
        env: Name of the environment variable.
        about: Description of the setting with its unit.
        low: Minimum value.
        high: Maximum value.
        choices: Allowed values.
        pattern: Regular expression that the whole text must match, and its description for error messages.
    """
    rules = {"low": low, "high": high, "choices": choices, "pattern": pattern}
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
    for item in fields(group):
        name = named[item.name] = prefix + item.metadata["env"]
        text = env.get(name)
        if text is None:
            continue
        kind: type = type(item.default)
        try:
            values[item.name] = _parse_bool(text) if kind is bool else kind(text)
        except ValueError:
            raise InvalidSetting(name=name, value=repr(text), why=f"it must be {TYPE_NAMES[kind]}") from None
    return _checked(replace(base or group(), **values), named)


def group_as_env(group: DataclassInstance, prefix: str = "") -> dict[str, str]:
    """Return the settings of a group as environment variables that `group_from_env` can read."""
    return {
        prefix + item.metadata["env"]: _format_value(getattr(group, item.name), type(item.default))
        for item in fields(group)
    }


def _format_value(value: Any, kind: type) -> str:
    """Format a value as text that is parsed back to the same value."""
    return str(int(value)) if kind is bool else str(kind(value))


def _parse_bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in TRUE | FALSE:
        raise ValueError
    return word in TRUE


def _checked(group: Group, named: Mapping[str, str]) -> Group:
    """Check the ranges of all settings and return the group.

    Args:
        named: Names of the settings in error messages, by field name.
    """
    for item in fields(group):
        name = named.get(item.name, item.name)
        value, low, high = getattr(group, item.name), item.metadata["low"], item.metadata["high"]
        if isinstance(value, float) and not isfinite(value):
            raise InvalidSetting(name=name, value=value, why="it must be a finite number")
        choices = item.metadata["choices"]
        if choices and value not in choices:
            raise InvalidSetting(name=name, value=repr(value), why=f"it must be {' or '.join(choices)}")
        pattern = item.metadata["pattern"]
        if pattern and not re.fullmatch(pattern[0], value):
            raise InvalidSetting(name=name, value=repr(value), why=f"it must be {pattern[1]}")
        if low is not None and value < low:
            raise InvalidSetting(name=name, value=value, why=f"it must be at least {low}")
        if high is not None and value > high:
            raise InvalidSetting(name=name, value=value, why=f"it must be at most {high}")
    return group
