"""Tests for the settings: defaults, environment variables, ranges and precedence."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import InvalidSetting
from runtime.request import Mode
from runtime.setting_fields import override
from runtime.settings import (
    DEMO_CHECKPOINT,
    ClusterSettings,
    EngineSettings,
    Limits,
    ModeSettings,
    ServerSettings,
    Settings,
)
from runtime.variables import OF_THE_STUDIO, of_the_runtime, unknown, warn_of_unknown
from studio.settings import StoreSettings, VisitSettings
from tests.support.examples import examples
from tools import settings_page

GROUPS = (Limits, EngineSettings, ServerSettings, ClusterSettings)
SETTINGS = [(group, setting) for group in GROUPS for setting in fields(group)]
# Settings whose values are not texts. Texts are validated by the code that uses them.
NUMBERS = [setting for _, setting in SETTINGS if not isinstance(setting.default, str)]

PATTERNED = {"sound_graphs": "32x16,8x4"}

per_setting = pytest.mark.parametrize(("group", "setting"), SETTINGS, ids=[setting.name for _, setting in SETTINGS])


def group_of(settings: Settings, group: type) -> Any:
    groups = (settings.limits, settings.engine, settings.server, settings.cluster)
    return next(value for value in groups if isinstance(value, group))


def test_empty_environment_gives_the_defaults() -> None:
    assert Settings.from_env({}) == Settings()
    assert Settings().models == (str(DEMO_CHECKPOINT),)


def test_limits_have_their_documented_defaults() -> None:
    limits = Limits()
    assert limits.max_instruct_chars == 500
    assert (limits.min_reference_s, limits.max_reference_s) == (1.0, 60.0)
    assert {mode.first_chunk_frames for mode in Settings().modes.values()} == {1}


def test_environment_names_are_unique_and_prefixed() -> None:
    names = [setting.metadata["env"] for _, setting in SETTINGS]
    assert len(set(names)) == len(names)
    assert all(name.startswith("VOICEWRIGHT_") for name in names)


@per_setting
def test_every_setting_has_a_description_and_a_default_in_range(group: type, setting: Any) -> None:
    assert len(setting.metadata["about"]) > 10
    low, high = setting.metadata["low"], setting.metadata["high"]
    assert low is None or setting.default >= low
    assert high is None or setting.default <= high


@per_setting
def test_environment_overrides_defaults(group: type, setting: Any) -> None:
    value: Any = "words" if isinstance(setting.default, str) else type(setting.default)(setting.default + 1)
    if setting.metadata["high"] is not None:
        value = min(value, type(setting.default)(setting.metadata["high"]))
    if setting.metadata["choices"]:
        value = setting.metadata["choices"][-1]
    if setting.metadata["pattern"]:
        value = PATTERNED[setting.name]
    settings = Settings.from_env({setting.metadata["env"]: str(value)})
    assert getattr(group_of(settings, group), setting.name) == value
    assert type(getattr(group_of(settings, group), setting.name)) is type(setting.default)


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda setting: setting.name)
def test_non_numeric_value_is_refused_by_name(setting: Any) -> None:
    for text in ("many", "", "1e", "nan", "inf"):
        with pytest.raises(InvalidSetting) as caught:
            Settings.from_env({setting.metadata["env"]: text})
        assert str(caught.value).startswith(f"{setting.metadata['env']} is ")
        assert " it must be a" in str(caught.value)
        assert not re.search(r"\ba int\b|\bfloat\b", str(caught.value))


@per_setting
def test_value_out_of_range_is_refused(group: type, setting: Any) -> None:
    for bound, step in ((setting.metadata["low"], -1), (setting.metadata["high"], 1)):
        if bound is None:
            continue
        with pytest.raises(InvalidSetting, match=rf"^{setting.metadata['env']} is .* it must be at"):
            Settings.from_env({setting.metadata["env"]: str(type(setting.default)(bound + step))})
        with pytest.raises(InvalidSetting, match=setting.name):
            override(group(), **{setting.name: bound + step})


def test_command_line_overrides_environment_and_none_is_ignored() -> None:
    engine = Settings.from_env({"VOICEWRIGHT_MAX_SLOTS": "3", "VOICEWRIGHT_DEVICE": "cuda"}).engine
    changed = override(engine, max_slots=5, device=None, dtype=None)
    assert (changed.max_slots, changed.device, changed.dtype) == (5, "cuda", "auto")
    assert engine.max_slots == 3


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("/a", ("/a",)),
        ("base=/a custom_voice=owner/name@main", ("base=/a", "custom_voice=owner/name@main")),
        ("", (str(DEMO_CHECKPOINT),)),
        ("  ", (str(DEMO_CHECKPOINT),)),
    ],
)
def test_models_are_a_white_space_separated_list(text: str, models: tuple[str, ...]) -> None:
    assert Settings.from_env({"VOICEWRIGHT_MODEL": text}).models == models


def test_settings_are_immutable() -> None:
    with pytest.raises(AttributeError):
        Settings().engine.max_slots = 2  # type: ignore[misc]


def test_mode_settings_override_general_settings() -> None:
    modes = Settings.from_env(
        {"VOICEWRIGHT_MAX_CHUNK_FRAMES": "8", "VOICEWRIGHT_BASE_MAX_CHUNK_FRAMES": "25", "VOICEWRIGHT_PREFILLS": "3"}
    ).modes
    assert [modes[mode].max_chunk_frames for mode in (Mode.CUSTOM_VOICE, Mode.VOICE_DESIGN, Mode.BASE)] == [8, 8, 25]
    assert {modes[mode].prefills for mode in Mode} == {3}
    with pytest.raises(InvalidSetting, match="VOICEWRIGHT_BASE_PREFILLS"):
        Settings.from_env({"VOICEWRIGHT_BASE_PREFILLS": "many"})
    with pytest.raises(InvalidSetting, match=r"^VOICEWRIGHT_BASE_PREFILLS is -1:"):
        Settings.from_env({"VOICEWRIGHT_BASE_PREFILLS": "-1"})


@pytest.mark.parametrize(
    "setting", [setting for _, setting in SETTINGS if setting.metadata["choices"]], ids=lambda setting: setting.name
)
def test_value_outside_the_choices_is_refused(setting: Any) -> None:
    with pytest.raises(InvalidSetting, match=rf"^{setting.metadata['env']} is 'sometimes': .* or "):
        Settings.from_env({setting.metadata["env"]: "sometimes"})


def test_shape_pairs_are_parsed_and_invalid_pairs_are_refused() -> None:
    assert EngineSettings(sound_graphs=PATTERNED["sound_graphs"]).code2wav_graph_shapes == ((16, 32), (4, 8))
    assert EngineSettings().code2wav_graph_shapes == ()
    for text in ("32", "32x", "0x4", "8x4,", "8 x 4", "8x4;1x1", "1000x1"):
        with pytest.raises(InvalidSetting, match="it must be BATCHxFRAMES pairs"):
            Settings.from_env({"VOICEWRIGHT_SOUND_GRAPHS": text})


def values_of(setting: Any) -> st.SearchStrategy[Any]:
    """Return a Hypothesis strategy for the values of a setting."""
    low, high, choices, pattern = (setting.metadata[rule] for rule in ("low", "high", "choices", "pattern"))
    if choices:
        return st.sampled_from(choices)
    if pattern:
        return st.from_regex(pattern[0], fullmatch=True)
    match setting.default:
        case bool():
            return st.booleans()
        case int():
            return st.integers(low, high)
        case float():
            return st.floats(low, high, allow_nan=False, allow_infinity=False)
        case _:  # Strings that an environment variable can contain.
            return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def groups_of(group: type) -> st.SearchStrategy[Any]:
    return st.builds(group, **{setting.name: values_of(setting) for setting in fields(group)})


PATHS = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1).filter(lambda word: not word.isspace())
ALL = st.builds(
    Settings,
    models=st.lists(PATHS, min_size=1).map(tuple) | st.just(Settings().models),
    limits=groups_of(Limits),
    engine=groups_of(EngineSettings),
    modes=st.fixed_dictionaries({mode: groups_of(ModeSettings) for mode in Mode}),
    server=groups_of(ServerSettings),
    cluster=groups_of(ClusterSettings),
)


@settings(max_examples=examples(100), deadline=None)
@given(ALL, ALL)
def test_settings_written_to_the_environment_are_read_back_equal(ours: Settings, others: Settings) -> None:
    assert Settings.from_env(ours.as_env()) == ours
    assert Settings.from_env({**others.as_env(), "VOICEWRIGHT_PREFILLS": "3", **ours.as_env()}) == ours


def test_every_setting_and_the_checkpoints_are_written_to_the_environment() -> None:
    per_mode = [
        f"VOICEWRIGHT_{mode.upper()}_{setting.metadata['env']}" for mode in Mode for setting in fields(ModeSettings)
    ]
    assert sorted(Settings().as_env()) == sorted(
        ["VOICEWRIGHT_MODEL", *per_mode, *(setting.metadata["env"] for _, setting in SETTINGS)]
    )


def test_path_with_white_space_cannot_be_written() -> None:
    with pytest.raises(InvalidSetting, match="white space"):
        replace(Settings(), models=("/my checkpoints/a",)).as_env()


# --- Tests of unknown environment variables.


def test_unknown_variable_is_reported_with_the_nearest_known_variable(caplog: pytest.LogCaptureFixture) -> None:
    env = {"VOICEWRIGHT_MAX_WAITNG": "0", "VOICEWRIGHT_BASE_PREFILS": "1", "VOICEWRIGHT_COLOUR": "red", "PATH": "/"}
    fine = {
        "VOICEWRIGHT_MODEL": "x",
        "VOICEWRIGHT_SHARE_LINKS": "on",
        "VOICEWRIGHT_TEST_DATE": "f",
    } | Settings().as_env()
    warn_of_unknown(env | fine)
    assert [record.getMessage() for record in caplog.records] == [
        "VOICEWRIGHT_BASE_PREFILS is no setting and has no effect; did you mean VOICEWRIGHT_BASE_PREFILLS?",
        "VOICEWRIGHT_COLOUR is no setting and has no effect; docs/settings.md lists all settings.",
        "VOICEWRIGHT_MAX_WAITNG is no setting and has no effect; did you mean VOICEWRIGHT_MAX_WAITING?",
    ]


def test_every_variable_in_use_is_known() -> None:
    assert set(Settings().as_env()) | {"VOICEWRIGHT_PREFILLS"} <= of_the_runtime()
    page_settings = {setting.metadata["env"] for group in (StoreSettings, VisitSettings) for setting in fields(group)}
    assert page_settings | {"VOICEWRIGHT_RUNTIME_URL", "VOICEWRIGHT_TRANSCRIBER"} == OF_THE_STUDIO
    root = Path(__file__).resolve().parents[2]
    read = {
        name
        for folder in ("runtime", "studio", "clients/python", "spaces", "deploy")
        for file in (root / folder).rglob("*")
        if file.suffix in {".py", ".yaml"} and file.name != "variables.py"
        for name in re.findall(r"\bVOICEWRIGHT_[A-Z_]+[A-Z]\b", file.read_text(encoding="utf-8"))
    }
    # These two names are examples in a docstring.
    assert set(unknown(dict.fromkeys(read, ""))) <= {"VOICEWRIGHT_X", "VOICEWRIGHT_BASE_X"}


def test_settings_page_is_current() -> None:
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page(), "run: python -m tools.settings_page"
    assert not re.search(r"\de\+\d", settings_page.page())  # The page contains no number in exponent notation.
