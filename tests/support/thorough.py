"""This table says which tests `make test` leaves to `make test-all`, and why: they show again what others show once.

A row is a path and the functions in it, with or without the ids of their parameters; none means the whole of it.
Marks at a test (`thorough`, `pytest.param(..., marks=...)`) say the same nearer to it.
"""

from __future__ import annotations

import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
THIRDS = 3  # The number of parts of the files; one CI run takes one part.

Row = tuple[str, ...]

THOROUGH: dict[str, Row] = {
    # Nearly every test of the page opens the whole studio. `make test` runs only those listed below.
    "tests/browser": (),
    # Foreign clients, unchanged, each in a process that imports for seconds.
    "tests/clients": (),
    # 300 files written and read by the ffmpeg program; tests/unit/shared/test_ffmpeg_reader.py has one of each kind.
    "tests/corpus/test_audio.py": (),
    # Whole processes killed, again and again.
    "tests/chaos": (),
    "tests/proof": (),
    # Kernels in Triton's interpreter: a card runs the same tests in seconds.
    "tests/unit/device/test_kernels_attention.py": (),
    "tests/unit/device/test_kernels_frame_io.py": (),
    "tests/unit/device/test_kernels_gemm.py": (),
    "tests/unit/benchmarks/test_kernels.py": (),
    "tests/unit/device/test_kernels_medium_m_gemm.py": (),
    "tests/unit/device/test_kernels_sample.py": (),
    "tests/unit/device/test_kernels_small_m_gemm.py": (),
    "tests/unit/device/test_kernels_sound.py": (),
    "tests/unit/device/test_compiling.py": (),
    "tests/unit/engine/test_kernels_frame.py": (),
    "tests/unit/model/test_packed_sound.py": (),
    # The engine on other devices and in other orders: the same codes as on the plain one.
    "tests/unit/device/test_mps.py": ("test_every_operation_of_a_turn_has_a_kernel_on_apples_gpus",),
    "tests/unit/device/test_npu_engine.py": (),
    "tests/unit/benchmarks/test_npu.py": ("test_codes_are_the_cpus_and_the_parts_are_timed",),
    "tests/unit/engine/test_sound_graphs.py": (),
    # Suites of benchmarks, each with a runtime of its own and clients in processes.
    "tests/unit/benchmarks/test_serve.py": (),
    "tests/unit/benchmarks/test_engine.py": (
        "test_parts_are_measured_beside_their_floors",
        "test_arms_are_measured_at_the_same_points",
    ),
    "tests/unit/benchmarks/test_quality.py": (
        "test_batches_arms_and_earlier_runs_are_compared",
        "test_other_weights_are_led_along_the_codes_of_float32",
    ),
    "tests/unit/benchmarks/test_peers.py": ("test_our_own_row", "test_a_peer_that_cannot_run_is_a_row_with_its_error"),
    "tests/unit/support/test_checkpoints.py": (),
    "tests/unit/test_packaging.py": (
        "test_tritons_module_is_made_without_a_card_and_missed_where_it_was_not_made",
        "test_what_is_installed_finds_its_data_and_says_where_the_benchmarks_are",
    ),
    # Asks the package index, for every platform.
    "tests/unit/test_lock.py": (),
    # A frame on the card's side for every batch and span; three of them stand for all.
    "tests/unit/device/test_graph_lint.py": ("test_the_whole_frame_can_be_held_by_a_graph",),
    # Processes that import for seconds to show what they did not import, or are killed while they write.
    "tests/unit/device/test_kernels.py": (
        "test_kernels_are_there_with_a_card_or_with_the_interpreter",
        "test_the_runtime_imports_without_triton_and_knows_that_kernels_are_not_there",
    ),
    "tests/unit/device/test_npu.py": ("test_nothing_imports_the_library_before_an_npu_is_asked_for",),
    "tests/unit/model/test_products.py": ("test_the_library_alone_would_not_do",),
    "tests/unit/model/test_checkpoint.py": ("test_loading_does_without_what_takes_torch_long_to_import",),
    "tests/unit/shared/test_encoding.py": (
        "test_where_the_sound_is_cut_does_not_matter[opus]",
        "test_where_the_sound_is_cut_does_not_matter[aac]",
    ),
    "tests/unit/markdown/test_growing.py": (
        "test_every_cut_of_an_answer_gives_the_same_words",
        "test_a_long_text_costs_what_its_length_costs[brackets]",
        "test_a_long_text_costs_what_its_length_costs[quotation]",
        "test_a_long_text_costs_what_its_length_costs[nested]",
    ),
    "tests/unit/voices/test_library.py": (
        "test_a_writer_that_is_killed_leaves_the_old_or_the_new",
        "test_two_processes_write_at_once_and_lose_nothing",
    ),
    "tests/unit/voices/test_examination.py": ("test_finding_speech_leaves_the_threads_of_the_engine_alone",),
    "tests/unit/studio/test_transcribe.py": (
        "test_recordings_are_written_down_one_at_a_time_and_only_so_many_wait",
        "test_a_recogniser_that_crashes_takes_nobody_with_it",
    ),
    # Gradio's import takes longer than what is tested with it.
    "tests/unit/studio/test_page_app.py": (),
    "tests/unit/studio/test_supervisor.py": ("test_each_change_is_tried_anew_and_told_of_itself",),
    "tests/unit/studio/test_durability.py": (
        "test_a_writer_that_is_killed_leaves_every_take_whole",
        "test_a_damaged_database_is_moved_aside_and_made_anew_from_the_files[torn]",
        "test_a_damaged_database_is_moved_aside_and_made_anew_from_the_files[empty header]",
    ),
    "tests/unit/test_cli.py": (
        "test_windows_are_heard_behind_their_first_seam_and_a_clone_s_begin_with_its_reference[base]",
        "test_stdout_carries_the_same_samples_as_the_file",
        "test_windows_are_heard_behind_their_first_seam_and_a_clone_s_begin_with_its_reference[custom_voice]",
        "test_a_player_that_closes_the_pipe_is_no_error",
        "test_references_of_other_shapes_are_converted[stereo]",
        "test_references_of_other_shapes_are_converted[flac]",
        "test_a_full_disk_is_one_sentence",
    ),
    "tests/unit/model/test_hub.py": (
        "test_what_breaks_off_goes_on_by_itself_and_what_two_have_in_common_comes_once",
        "test_a_process_that_is_killed_leaves_what_the_next_goes_on_from",
        "test_a_hub_that_knows_no_ranges_gives_the_whole_again",
    ),
    "tests/unit/studio/test_downloads.py": (
        "test_what_fails_says_why_keeps_what_serves_and_can_be_tried_again",
        "test_what_cannot_be_loaded_leaves_the_present_voice",
    ),
    "tests/unit/studio/test_nasty_json.py": (
        "test_nothing_nasty_is_kept_or_breaks_a_list",
        "test_a_row_that_cannot_be_read_is_set_aside_and_the_rest_is_listed[a long number]",
        "test_a_row_that_cannot_be_read_is_set_aside_and_the_rest_is_listed[half a character]",
        "test_a_row_that_cannot_be_read_is_set_aside_and_the_rest_is_listed[too deep]",
    ),
    "tests/unit/engine/test_inline_tags.py": (
        "test_live_text_in_letters_gives_the_same_reply[at once-3-non_streaming]",
        "test_live_text_in_letters_gives_the_same_reply[at once-0-non_streaming]",
        "test_live_text_in_letters_gives_the_same_reply[at once-0-streaming]",
    ),
    "tests/unit/engine/test_loading.py": (
        "test_two_that_are_loaded_late_share_one_speech_tokenizer",
        "test_what_is_told_meanwhile_keeps_its_order",
    ),
    "tests/wire/test_watchdog.py": (
        "test_the_canary_gives_way_takes_no_place_and_is_not_counted",
        "test_weights_that_changed_are_heard_by_the_canary[voice_design]",
        "test_weights_that_changed_are_heard_by_the_canary[base]",
        "test_the_supervisor_starts_an_ailing_runtime_again_and_says_why",
        "test_a_frame_that_does_not_come_back_ends_health_clients_and_process",
    ),
    "tests/unit/studio/test_word_times.py": ("test_an_aligner_that_crashes_or_hangs_takes_nobody_with_it",),
    "tests/wire/test_styled_voices.py": (
        "test_every_dialect_speaks_a_stored_voice_with_a_style_and_with_a_graft[cartesia_bytes]",
        "test_every_dialect_speaks_a_stored_voice_with_a_style_and_with_a_graft[cartesia_socket]",
        "test_every_dialect_speaks_a_stored_voice_with_a_style_and_with_a_graft[elevenlabs_bytes]",
        "test_every_dialect_speaks_a_stored_voice_with_a_style_and_with_a_graft[omni]",
        "test_every_dialect_speaks_a_stored_voice_with_a_style_and_with_a_graft[openai]",
    ),
    "tests/unit/engine/test_quantized.py": (
        "test_a_request_says_beside_three_others_what_it_says_alone[int4]",
        "test_a_request_says_beside_three_others_what_it_says_alone[float16]",
    ),
    "tests/unit/engine/test_rounded_files.py": (
        "test_it_says_what_rounding_at_load_says[int8-torch.float32]",
        "test_it_says_what_rounding_at_load_says[int4-torch.float32]",
        "test_it_says_what_rounding_at_load_says[int4-torch.bfloat16]",
        "test_a_large_table_lies_in_the_file_and_says_the_same[int4]",
    ),
    "tests/golden/test_speech_tokenizer.py": ("test_windowed_decodes_equal_the_reference[tiny]",),
    "tests/js/test_stretch.py": (
        "test_length_changes_by_the_rate_and_the_pitch_does_not[0.75-140]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[0.75-260]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[0.75-350]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[1.25-140]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[1.25-260]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[1.25-350]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[1.5-140]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[1.5-260]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[1.5-350]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[2-140]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[2-260]",
        "test_length_changes_by_the_rate_and_the_pitch_does_not[2-350]",
    ),
    "tests/unit/shared/test_decoding.py": (
        "test_a_bomb_costs_a_moment[MP3-MPEG_LAYER_III]",
        "test_a_bomb_costs_a_moment[OGG-OPUS]",
        "test_a_bomb_costs_a_moment[OGG-VORBIS]",
    ),
    "tests/unit/server/native/test_schema.py": ("test_any_text_is_answered_by_a_code_of_the_table",),
    "tests/unit/studio/test_documents.py": ("test_what_cannot_be_read_says_why[a bomb of a few kilobytes]",),
    "tests/wire/test_tags.py": ("test_text_in_pieces_gives_the_same[3]",),
    # The wire: crowds, abuse, whole processes, every route compared with every other, limits waited out.
    "tests/wire/test_allowance.py": tuple(
        f"test_each_way_counts_and_each_way_ends_when_all_is_spent[{way}]"
        for way in ("mp3", "events", "batch", "omni", "elevenlabs")
    ),
    "tests/wire/test_cartesia.py": (
        "test_the_key_may_stand_in_the_address",
        "test_a_context_whose_text_does_not_go_on_expires_and_gives_its_slot_back",
        "test_pipecat_sends_sentences_and_reads_its_transcript_from_the_times",
        "test_cartesias_own_client_pushes_and_says_no_more_inputs",
        "test_other_formats_are_the_same_sound[pcm_f32le-44100]",
        "test_other_formats_are_the_same_sound[pcm_s16le-16000]",
    ),
    "tests/wire/test_cartesia_bytes.py": (
        "test_a_wav_holds_each_encoding[pcm_alaw-ALAW-0.04]",
        "test_a_wav_holds_each_encoding[pcm_f32le-FLOAT-0]",
        "test_a_wav_holds_each_encoding[pcm_mulaw-ULAW-0.04]",
        "test_other_rates_last_as_long",
        "test_an_mp3_has_the_rates_that_were_asked_for[22050-None]",
        "test_an_mp3_has_the_rates_that_were_asked_for[44100-128000]",
        "test_what_newer_clients_send_is_understood",
    ),
    "tests/wire/test_engine_process.py": (
        "test_a_server_that_ends_while_it_loads_leaves_no_engine",
        "test_ctrl_c_while_the_engine_starts_ends_both_without_a_word",
    ),
    "tests/wire/test_elevenlabs.py": (
        "test_elevenlabs_own_client_sends_each_word_and_would_have_it_now",
        "test_livekits_sentences_are_flushed_and_its_context_closed",
        "test_a_codec_on_a_socket_is_a_file_that_others_can_read",
        "test_who_goes_on_too_late_is_told",
        "test_an_error_ends_its_context_and_no_other",
        "test_a_hang_up_over_http_frees_the_slot",
        "test_a_file_has_the_format_that_was_asked_for[pcm_8000-audio/pcm]",
        "test_a_file_has_the_format_that_was_asked_for[wav_16000-audio/wav]",
        "test_a_file_has_the_format_that_was_asked_for[opus_48000_64-audio/ogg]",
        "test_a_file_has_the_format_that_was_asked_for[ulaw_8000-audio/basic]",
        "test_a_faster_voice_is_shorter_and_tags_are_not_read",
        "test_the_curl_of_the_page_works",
        "test_every_refusal_on_their_routes_has_their_shape_and_no_other",
    ),
    "tests/wire/test_wyoming.py": (
        "test_two_speak_at_once_and_each_is_heard",
        "test_a_silent_client_is_sent_home",
        "test_a_server_that_ends_at_once_leaves_nothing_behind",
        "test_a_successor_binds_the_port_and_takes_over",
        "test_requests_a_minute_are_counted_here_too",
    ),
    "tests/wire/test_client.py": (
        "test_utterances_share_a_socket_and_sound_as_each_alone",
        "test_sound_that_nobody_reads_is_not_fetched",
        "test_a_queue_position_is_told_while_no_slot_is_free",
    ),
    "tests/wire/test_drain.py": (
        "test_who_speaks_may_not_begin_anew",
        "test_a_second_signal_does_not_wait",
        "test_a_process_drains_at_sigterm",
    ),
    "tests/wire/test_omni.py": (
        "test_whole_sentences_are_files_that_others_can_read",
        "test_sentences_come_in_order_where_there_is_one_slot",
        "test_a_socket_serves_one_utterance_after_the_other",
        "test_a_wrong_first_message_and_a_silent_client_are_sent_away_in_order",
        "test_commitment_cuts_at_strong_ends_and_needs_a_language",
    ),
    "tests/wire/test_one_sound.py": (),
    "tests/wire/test_openai.py": (
        "test_a_runaway_is_made_again_with_the_next_seed",
        "test_a_file_whose_head_says_its_length_says_the_true_one[wav]",
        "test_a_hang_up_frees_the_slot_within_a_frame_or_two",
        "test_a_file_whose_head_says_its_length_says_the_true_one[flac]",
        "test_the_clients_own_request_id_comes_back_where_it_is_safe[two words-False]",
        "test_the_clients_own_request_id_comes_back_where_it_is_safe[given1-True]",
        "test_the_clients_own_request_id_comes_back_where_it_is_safe[given2-False]",
        "test_the_encoder_of_who_hangs_up_ends_its_threads_without_the_collector",
        "test_100_hang_ups_leave_nothing_behind",
        "test_a_client_that_reads_nothing_is_dropped",
        "test_a_slow_reader_pauses_its_row_and_goes_on",
        "test_a_body_that_does_not_come_is_not_waited_for",
        "test_half_a_reply_is_never_taken_for_a_whole_one",
        "test_a_batch_waits_outside_a_queue_that_is_full",
        "test_each_curl_of_the_page_works",
        "test_every_format_brings_the_sound",
        "test_each_python_of_the_pages_works",
    ),
    "tests/wire/test_peers.py": (),
    "tests/wire/test_process.py": (
        "test_a_signal_ends_it_while_it_loads",
        "test_a_signal_ends_it_while_it_speaks[2]",
        "test_a_signal_ends_one_in_order_whose_output_nobody_reads",
        "test_a_signal_to_one_that_does_not_speak_prints_nothing",
        "test_signals_end_it_cleanly_in_the_middle_of_a_network",
        "test_a_second_signal_ends_it_cleanly_while_it_speaks",
        "test_verbose_may_stand_behind_the_command",
        "test_a_missing_weights_file_is_one_sentence",
        "test_a_missing_checkpoint_is_one_sentence",
        "test_a_host_that_is_not_ours_is_one_sentence",
    ),
    "tests/wire/test_refusals.py": (
        "test_who_waits_is_told_for_how_long_and_not_kept_for_ever",
        "test_live_sessions_without_text_hold_no_slot_and_no_place_in_the_queue",
        "test_references_that_are_too_short_or_too_long",
    ),
    "tests/wire/test_speech.py": (
        "test_any_sequence_of_messages_is_answered_by_codes",
        "test_a_session_speaks_again_and_again_with_one_reference",
        *(
            f"test_bad_requests_get_one_error_and_the_session_goes_on[{case}]"
            for case in (
                "config1-Hello.-unsupported_language",
                "config3- \\n-empty_text",
                "config6-Hello.-missing_ref_text",
                "config8-Hello.-address_refused",
                "config9-Hello.-invalid_config",
                "config10-Hello.-invalid_config",
            )
        ),
        "test_nobody_configures_and_nobody_speaks",
        "test_two_sockets_at_once_sound_as_each_alone",
    ),
    "tests/wire/test_text_filter.py": (),
    "tests/unit/engine/test_live_text.py": (
        "test_white_space_around_live_text_changes_neither_codes_nor_budget",
        "test_sentences_are_the_same_parts_however_they_come[at once-0]",
        "test_sentences_are_the_same_parts_however_they_come[at once-9]",
    ),
    "tests/wire/test_voices.py": (
        "test_many_uploads_at_once_are_all_answered",
        "test_uploads_end_at_the_limit_announced_or_not",
    ),
    "tests/unit/engine/test_voice_encoders.py": ("test_a_new_voice_is_the_same_alone_and_among_others",),
    "tests/unit/engine/test_voice_cache.py": tuple(
        f"test_a_prompt_that_does_not_fit_is_made_anew_from_the_samples[{how}]"
        for how in (
            "without codes",
            "with too many codes",
            "with codes below the table",
            "with a short x-vector",
        )
    ),
    "tests/unit/engine/test_leaks.py": (),
    # The engine: the same for another shape of checkpoint, another place of the fault, another cut.
    "tests/unit/engine/test_batches.py": (
        "test_cloned_voices_keep_to_their_own_reference",
        "test_requests_with_different_sampling_share_a_batch",
        "test_another_shape_of_checkpoint_batches_as_well",
        "test_a_batch_equals_its_members_alone[at once-0-greedy]",
        "test_a_batch_equals_its_members_alone[at once-0-seeded]",
        "test_a_batch_equals_its_members_alone[at once-1-greedy]",
        "test_a_batch_equals_its_members_alone[at once-3-greedy]",
        "test_a_batch_equals_its_members_alone[at once-3-seeded]",
        "test_members_may_join_and_leave_in_any_order[at once-1]",
        "test_members_may_join_and_leave_in_any_order[at once-2]",
        "test_members_may_join_and_leave_in_any_order[at once-3]",
    ),
    "tests/unit/engine/test_frame.py": (
        "test_frames_have_the_same_bits_alone_and_with_up_to_sixteen_neighbours",
        "test_the_embedded_voice_s_frames_have_the_same_bits_in_a_batch",
    ),
    "tests/unit/engine/test_growing_window.py": (),
    "tests/unit/engine/test_long_text.py": (
        "test_a_growing_text_has_the_same_codes_however_it_comes[at once-0]",
        "test_a_growing_text_has_the_same_codes_however_it_comes[at once-8]",
    ),
    "tests/unit/engine/test_prefix_cache.py": (
        "test_a_kept_beginning_says_the_same_bytes_and_is_read_once[at once-design]",
        "test_a_kept_beginning_says_the_same_bytes_and_is_read_once[at once-non_streaming]",
    ),
    "tests/unit/engine/test_scheduler.py": ("test_a_listener_that_never_reads_costs_a_bounded_number_of_frames[0]",),
    "tests/unit/engine/test_faults.py": (
        "test_a_row_that_fails_a_frame_ends_alone_and_the_others_keep_their_bytes[0-late_fault]",
        "test_a_row_that_fails_a_frame_ends_alone_and_the_others_keep_their_bytes[6-late_fault]",
        "test_a_row_that_fails_a_frame_ends_alone_and_the_others_keep_their_bytes[3-late_fault]",
        "test_a_row_that_fails_a_frame_ends_alone_and_the_others_keep_their_bytes[6-bad_codes]",
        "test_a_row_that_fails_a_frame_ends_alone_and_the_others_keep_their_bytes[0-bad_codes]",
    ),
    "tests/unit/engine/test_guards.py": ("test_a_guard_strikes_at_the_same_frame_however_the_sound_is_cut",),
    "tests/unit/engine/test_pipeline.py": (),
    # What may be drawn is compared for every setting; how often it is, for the shipped ones and one of each kind.
    "tests/unit/engine/test_sampling.py": ("test_draws_follow_the_reference_exactly",),
    "tests/unit/engine/test_sound.py": (
        "test_company_changes_no_bit_of_the_sound",
        "test_bytes_do_not_depend_on_chunks_company_or_lead[at once-words0-1-ahead]",
        "test_bytes_do_not_depend_on_chunks_company_or_lead[at once-words0-1-behind]",
        "test_bytes_do_not_depend_on_chunks_company_or_lead[at once-words1-16-ahead]",
        "test_bytes_do_not_depend_on_chunks_company_or_lead[at once-words1-16-close]",
        "test_bytes_do_not_depend_on_chunks_company_or_lead[at once-words2-7-behind]",
        "test_bytes_do_not_depend_on_chunks_company_or_lead[at once-words2-7-close]",
        "test_sixteen_requests_with_cancels_and_slow_readers_between_them_say_what_each_says_alone",
    ),
    # Schedules drawn at random stay, of one shape of checkpoint.
    "tests/unit/model/test_code2wav.py": (
        "test_random_schedules_equal_the_full_decode[odd]",
        "test_the_library_s_convolutions_make_the_same_sound_but_for_rounding",
        "test_streams_that_start_at_different_times_share_batches",
        "test_any_schedule_equals_the_full_decode",
        "test_the_embedded_voice_has_the_same_bits_in_every_chunking_and_every_batch",
        "test_warming_equals_decoding_the_reference_and_dropping_its_sound",
    ),
    "tests/golden/test_utterances.py": (
        "test_codes_equal_the_reference",
        "test_codes_equal_the_reference_all_in_one_batch",
        "test_sound_equals_the_reference[cv_one_token]",
        "test_sound_equals_the_reference[icl_long_stream]",
        "test_sound_equals_the_reference[odd_icl_stream]",
        "test_sound_equals_the_reference[xv_english]",
    ),
    # What the embedded voice says at length, to a recogniser.
    "tests/speech/test_demo_voice.py": (
        "test_every_speaker_is_understood",
        "test_a_cloned_voice_is_understood",
        "test_random_weights_are_not_understood",
    ),
    "tests/speech/test_guards.py": (),
    "tests/speech/test_long_text.py": (),
}

# What of those is in `make test` all the same: every module of the page, every room, one path of each kind.
KEPT: dict[str, Row] = {
    "tests/browser/test_clone.py": ("test_a_long_recording_says_what_can_be_used_of_it_and_nothing_outlives_the_next",),
    "tests/browser/test_drafts.py": ("test_a_reload_keeps_the_text_the_speaker_and_how_to_say_it",),
    "tests/browser/test_elements.py": (),
    "tests/browser/test_history.py": ("test_takes_outlive_the_page_and_are_found_again",),
    "tests/browser/test_languages.py": ("test_what_the_server_refuses_is_said_in_the_language_of_the_page",),
    "tests/browser/test_library_voices.py": ("test_voices_are_searched_and_changed",),
    "tests/browser/test_network.py": ("test_a_stalled_connection_is_noticed_said_and_made_again",),
    "tests/browser/test_page.py": (
        "test_bad_input_is_said_in_one_sentence_at_its_field",
        "test_the_page_asks_nobody_but_its_own_origin",
        "test_every_field_has_a_name_for_a_screen_reader",
        "test_the_port_answers_heads_and_keeps_its_closed_routes_closed",
    ),
    "tests/browser/test_scheduled.py": (),
    "tests/browser/test_script_page.py": ("test_names_choose_voices_and_pauses_stand_in_the_text",),
    "tests/browser/test_speaking.py": (
        "test_each_room_speaks[speakers]",
        "test_the_loudspeaker_gets_the_served_samples_bit_for_bit",
        "test_stop_silences_at_once_and_frees_the_slot",
    ),
    "tests/browser/test_whole_path.py": (),  # A voice is designed, saved, spoken with, used in a script and exported.
    "tests/browser/test_worklet.py": (
        "test_sound_that_comes_in_time_leaves_bit_for_bit[[1, 2, 4, 3]]",
        "test_a_stall_is_counted_ramped_and_loses_nothing",
        "test_after_a_stall_it_waits_for_its_target_again",
        "test_an_end_that_comes_late_is_no_underrun",
        "test_it_starts_when_it_was_held_for_long_enough_whatever_is_there",
        "test_stop_is_silence_within_five_milliseconds",
        "test_a_new_take_plays_none_of_the_one_before",
    ),
    "tests/unit/engine/test_pipeline.py": (
        "test_prompts_are_read_beside_each_other_and_beside_the_frames",
        "test_a_started_engine_is_woken_by_the_device",
    ),
    "tests/unit/engine/test_sampling.py": tuple(
        f"test_draws_follow_the_reference_exactly[{setting}]" for setting in ("default", "strong_penalty")
    ),
    "tests/unit/model/test_code2wav.py": tuple(
        f"test_warming_equals_decoding_the_reference_and_dropping_its_sound[{case}]" for case in ("tiny-11", "odd-10")
    ),
    "tests/wire/test_openai.py": tuple(
        f"test_every_format_brings_the_sound[{case}]"
        for case in (
            "mp3-plain",
            "mp3-sse",
            "wav-whole",
        )
    ),
    "tests/wire/test_peers.py": (
        "test_cancel_after_input_done_stops_within_a_frame_and_nothing_follows",
        "test_a_session_is_told_before_it_has_lasted_too_long",
        "test_keys_tickets_and_origins_by_real_sockets",
        "test_what_a_client_writes_is_neither_said_back_nor_logged",
    ),
    # A case of each layout, of each kind of voice and of each end; sampled and greedy, both shapes of checkpoint.
    "tests/golden/test_utterances.py": tuple(
        f"test_codes_equal_the_reference[{case}]"
        for case in (
            "cv_auto",
            "cv_stream_auto",
            "cv_0b6_instruct_dropped",
            "cv_long_stream",
            "odd_cv_penalty",
            "vd_auto",
            "xv_auto",
            "icl_short_stream",
            "eos_late",
        )
    ),
    "tests/unit/device/test_graph_lint.py": ("test_the_whole_frame_can_be_held_by_a_graph[odd-dtype2-8-512]",),
}


def gone() -> list[str]:
    """Rows of files that are there no more: whoever moves a file moves its row."""
    return [path for path in (*THOROUGH, *KEPT) if not (ROOT / path).exists()]


def third_of(nodeid: str) -> int:
    """To which third of the files this test's belongs, from 0; about as long each."""
    return zlib.crc32(nodeid.partition("::")[0].encode()) % THIRDS


def is_thorough(nodeid: str) -> bool:
    """Does a row name this test, and none keep it?"""
    path, _, rest = nodeid.partition("::")
    test = rest.rpartition("::")[2]
    return _names(THOROUGH, path, test) and not _names(KEPT, path, test)


def is_wholly_thorough(path: str) -> bool:
    """Does a row name this file with all its tests, and none keep any?"""
    return any(THOROUGH.get(place) == () for place in _places(path)) and not any(
        place in KEPT for place in _places(path)
    )


def _places(path: str) -> tuple[str, ...]:
    """A file and the folders it is in."""
    return (path, *map(str, Path(path).parents))


def _names(table: dict[str, Row], path: str, test: str) -> bool:
    rows = [table[place] for place in _places(path) if place in table]
    return any(not row or test in row or test.partition("[")[0] in row for row in rows)
