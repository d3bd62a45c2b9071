"""This table says which tests `make test` leaves to `make test-all`, and why: they show again what others show once.

A row is a path and the functions in it; no functions means the whole file or folder. Marks at a test (`thorough`,
`pytest.param(..., marks=...)`) say the same nearer to it; the table is for what is decided by file.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Row = tuple[str, ...]

THOROUGH: dict[str, Row] = {
    # The page: nearly every test opens the whole studio anew. What `make test` keeps of it stands below.
    "tests/browser": (),
    # Foreign clients, unchanged, each in a process that imports for seconds.
    "tests/clients": (),
    # Whole processes killed, again and again.
    "tests/chaos": (),
    # Kernels in Triton's interpreter: a card runs the same tests in seconds.
    "tests/unit/device/test_kernels_attention.py": (),
    "tests/unit/device/test_kernels_frame_io.py": (),
    "tests/unit/device/test_kernels_gemm.py": (),
    "tests/unit/device/test_kernels_sample.py": (),
    "tests/unit/device/test_kernels_small_m_gemm.py": (),
    "tests/unit/device/test_kernels_sound.py": (),
    "tests/unit/device/test_compiling.py": (),
    "tests/unit/engine/test_kernels_frame.py": (),
    "tests/unit/model/test_packed_sound.py": (),
    # The engine on other devices and in other orders: the same codes as on the plain one.
    "tests/unit/device/test_npu_engine.py": (),
    "tests/unit/engine/test_sound_graphs.py": (),
}

# What of those is in `make test` all the same: every module of the page, every room, one path of each kind.
KEPT: dict[str, Row] = {
    "tests/browser/test_clone.py": (
        "test_what_is_trimmed_is_what_is_sent",
        "test_a_long_recording_says_what_is_chosen_of_it_and_nothing_outlives_discard",
    ),
    "tests/browser/test_design_modules.py": (),
    "tests/browser/test_drafts.py": (
        "test_rooms_have_addresses_and_back_leads_to_the_room_before",
        "test_a_reload_keeps_the_text_the_speaker_and_how_to_say_it",
    ),
    "tests/browser/test_history.py": ("test_takes_outlive_the_page_and_are_found_again",),
    "tests/browser/test_languages.py": ("test_what_the_server_refuses_is_said_in_the_language_of_the_page",),
    "tests/browser/test_library_voices.py": ("test_voices_are_searched_and_changed",),
    "tests/browser/test_look.py": ("test_the_theme_is_the_systems_until_one_is_chosen_and_stays",),
    "tests/browser/test_network.py": ("test_a_stalled_connection_is_noticed_said_and_made_again",),
    "tests/browser/test_page.py": (
        "test_bad_input_is_said_in_one_sentence_at_its_field",
        "test_a_killed_runtime_is_told_and_comes_back",
        "test_an_insecure_origin_plays_without_an_audio_worklet",
        "test_the_page_asks_nobody_but_its_own_origin",
        "test_every_field_has_a_name_for_a_screen_reader",
        "test_the_port_answers_heads_and_keeps_its_closed_routes_closed",
    ),
    "tests/browser/test_scheduled.py": (),
    "tests/browser/test_script_page.py": (
        "test_names_choose_voices_and_pauses_stand_in_the_text",
        "test_lines_are_written_moved_copied_and_removed_by_keys_alone",
    ),
    "tests/browser/test_script_text.py": (),
    "tests/browser/test_speaking.py": (
        "test_each_room_speaks",
        "test_the_loudspeaker_gets_the_served_samples_bit_for_bit",
        "test_stop_silences_at_once_and_frees_the_slot",
    ),
    "tests/browser/test_stage.py": (
        "test_a_sequence_is_handed_out_in_order_from_wherever_it_is_begun",
        "test_the_start_waits_for_as_much_as_the_last_take_needed",
        "test_the_start_is_held_for_as_long_as_the_last_take_was_late",
        "test_the_start_rises_at_once_and_eases_slowly",
        "test_space_pauses_and_goes_on_where_it_was",
    ),
    "tests/browser/test_text_facts.py": (
        "test_lengths_and_names_are_those_of_the_runtime",
        "test_a_text_of_another_language_is_told_from_names_in_it",
        "test_a_long_text_is_counted_and_becomes_a_script_with_one_click",
    ),
    "tests/browser/test_whole_path.py": (),  # a voice is designed, kept, spoken with, put into a script and exported
    "tests/browser/test_worklet.py": (),
    "tests/browser/test_ws_client.py": (),
    "tests/chaos/test_app.py": ("test_a_signal_ends_both_processes_in_the_middle_of_a_sentence",),
}


def gone() -> list[str]:
    """Rows of files that are there no more: whoever moves a file moves its row."""
    return [path for path in (*THOROUGH, *KEPT) if not (ROOT / path).exists()]


def is_thorough(nodeid: str) -> bool:
    """Does a row name this test, and none keep it?"""
    path, _, rest = nodeid.partition("::")
    name = rest.rpartition("::")[2].partition("[")[0]
    return _names(THOROUGH, path, name) and not _names(KEPT, path, name)


def _names(table: dict[str, Row], path: str, name: str) -> bool:
    rows = [table[place] for place in (path, *map(str, Path(path).parents)) if place in table]
    return any(not row or name in row for row in rows)
