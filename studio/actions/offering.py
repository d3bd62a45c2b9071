"""List of the actions, and helpers for their signatures.

An action is a function that programs call through MCP or Gradio's API. Its first argument is a `StudioClient`, which
the callers do not pass.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Awaitable, Callable
from typing import Any

from studio.actions import scripts, speech, voices

Action = Callable[..., Awaitable[Any]]  # Async function whose first argument is a StudioClient.

ACTIONS: tuple[Action, ...] = (
    speech.speak,
    speech.design,
    speech.list_takes,
    speech.take_audio,
    speech.take_words,
    speech.reproduce,
    voices.keep,
    voices.clone,
    voices.list_voices,
    voices.delete_voice,
    scripts.script,
    scripts.export,
)


def argument_descriptions(action: Action) -> dict[str, str]:
    """Return the descriptions of an action's arguments, parsed from its docstring.

    The keys of the result are the names of the arguments.
    """
    _, _, listed = inspect.cleandoc(action.__doc__ or "").partition("Args:\n")
    return dict(re.findall(r"^ {4}(\w+): (.+)$", listed, re.MULTILINE))


def copy_signature(call: Action, action: Action, caller: inspect.Parameter, returns: object = None) -> Action:
    """Give a wrapper function the name, docstring and signature of an action.

    Gradio and MCP inspect the signature of the wrapper. The type annotations are resolved here, because their names are
    only defined in the module of the action.

    Args:
        call: Wrapper function, which is changed and returned.
        action: Action whose name, docstring and signature are copied.
        caller: Parameter that identifies the caller. It becomes the last parameter of the wrapper.
        returns: Return annotation of the wrapper, or None to use the annotation of the action.
    """
    hints = typing.get_type_hints(action)
    parameters = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(action).parameters.items()
        if name != "studio"
    ]
    back = hints["return"] if returns is None else returns
    call.__name__ = action.__name__
    call.__doc__ = action.__doc__
    call.__module__ = action.__module__
    call.__qualname__ = action.__name__
    call.__signature__ = inspect.Signature([*parameters, caller], return_annotation=back)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in (*parameters, caller)} | {"return": back}
    return call
