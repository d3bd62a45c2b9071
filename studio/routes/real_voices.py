"""Routes `studio/host/downloads`, which list and download published checkpoints.

Only the host (the operator of the studio) may use these routes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runtime.errors import InvalidConfig, OutOfOrder
from runtime.published import LICENCE, PUBLISHED, SPEECH_TOKENIZER_BYTES
from runtime.request import Mode
from runtime.settings import DEMO_CHECKPOINT, EngineSettings
from studio.checkpoint_arguments import BITS, models_of, values_of
from studio.downloads import CheckpointDownload
from studio.errors import HostOnly, MemoryTooSmall
from studio.fetching import DownloadState, Plan
from studio.routes.host import is_host, runtime_client
from studio.routes.responses import Handler, handle_errors, json_response, query_flag, read_body
from studio.runtimes.supervisor import ChildRuntime, Runtime
from studio.settings import StudioSettings
from studio.store.records import decode

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(@[A-Za-z0-9][\w./-]{0,99})?")
MAX_CHECKPOINTS = len(Mode)
MAX_FLUENT_RTF = 0.8  # Maximum real-time factor at which speech streams without gaps.
GB = 10**9
# Fields of a plan that describe the machine.
FACTS = ("quantize", "total", "room", "problem")
QUANTIZE_CHOICES = next(setting.metadata["choices"] for setting in fields(EngineSettings) if setting.name == "quantize")


async def cards_of(runtime: Runtime, key: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the descriptions (model cards) of the checkpoints that the runtime has loaded.

    The list is empty if the runtime does not respond.
    """
    if runtime.url is None:
        return []
    try:
        async with runtime_client(runtime.url, key) as client:
            cards: list[dict[str, Any]] = (await client.get("/v1/models")).raise_for_status().json()["data"]
            return cards
    except (httpx.HTTPError, ValueError, KeyError):
        return []


def feature(
    request: Request, runtime: Runtime, settings: StudioSettings, downloads: CheckpointDownload | None
) -> dict[str, Any]:
    """Return the data about checkpoints that the page needs before it is displayed.

    The data states whether the small built-in checkpoint is loaded, and whether the visitor may change checkpoints. If
    so, it also has the state of a download. Without this state, the layout of the page would shift later.
    """
    models = models_of(runtime.args) if isinstance(runtime, ChildRuntime) else []
    can_download = isinstance(runtime, ChildRuntime) and is_host(request, settings)
    return {
        "small": DEMO_CHECKPOINT.name,
        "speaks": any(str(DEMO_CHECKPOINT) in model for model in models),
        "may": can_download,
        "download": downloads.status() if can_download and downloads is not None else None,
    }


@dataclass(frozen=True, slots=True)
class RealVoiceRoutes:
    """HTTP routes of checkpoint downloads.

    Args:
        downloads: State of downloads, or None if the studio did not start the runtime.
        plan: Cached list of published checkpoints.

    Thread: event loop.
    """

    runtime: Runtime
    settings: StudioSettings
    downloads: CheckpointDownload | None
    plan: Plan

    def routes(self) -> list[Route]:
        table: list[tuple[str, str, Handler]] = [
            ("GET", "", self.show),
            ("POST", "", self.start),
            ("DELETE", "", partial(self.act, CheckpointDownload.stop, 200)),
            ("POST", "/pause", partial(self.act, CheckpointDownload.pause, 200)),
            ("POST", "/resume", partial(self.act, CheckpointDownload.resume, 202)),
            ("POST", "/back", partial(self.act, CheckpointDownload.restore_previous, 202)),
        ]
        return [
            Route(f"/studio/host/downloads{path}", handle_errors(endpoint), methods=[method])
            for method, path, endpoint in table
        ]

    async def show(self, request: Request) -> Response:
        """Return the state of the current checkpoint download.

        With ``?plan=1``, the response also lists the published checkpoints.
        """
        downloads = self._of(request)
        state: dict[str, Any] = {"download": downloads.status()}
        if query_flag(request, "plan"):
            args = self.runtime.args if isinstance(self.runtime, ChildRuntime) else ()
            names = ("--device", "--dtype", BITS)
            device = [f"{name}={value}" for name in names for value in values_of(args, name)[-1:]]
            # During a download, the page shows its progress instead of the plan.
            if downloads.record.state not in (DownloadState.FETCHING, DownloadState.CHANGING):
                self.plan.update(device, downloads.changed_at)
            state["plan"] = build_plan(self.plan.latest) | {"asking": self.plan.is_running}
        return json_response(state)

    async def start(self, request: Request) -> Response:
        """Start downloading checkpoints, and serve them when the download is complete.

        The body is {"models": ["OWNER/NAME", …], "quantize": "int8"}. The default of ``quantize`` is the studio's
        setting, or the format that fits this machine.
        """
        downloads = self._of(request)
        body = decode(await read_body(request))
        models, bits = _models(body), _bits(body)
        plan = build_plan(self.plan.latest)
        need = total_memory(plan, models, bits)
        if plan["total"] is not None and need > plan["total"]:
            raise MemoryTooSmall(need=round(need / GB, 1), have=round(plan["total"] / GB, 1))
        downloads.start(models, bits)
        return json_response({"download": downloads.status()}, 202)

    async def act(
        self, action: Callable[[CheckpointDownload], Awaitable[None]], status: int, request: Request
    ) -> Response:
        """Run an action on the current download, such as a pause, and return the download's state."""
        downloads = self._of(request)
        await action(downloads)
        return json_response({"download": downloads.status()}, status)

    def _of(self, request: Request) -> CheckpointDownload:
        if not is_host(request, self.settings):
            raise HostOnly
        if self.downloads is None:
            raise OutOfOrder(what="Downloading", why="the runtime was not started by this studio")
        return self.downloads


def build_plan(measured: dict[str, Any] | None) -> dict[str, Any]:
    """Return the list of published checkpoints for the page.

    `measured` is a list from a child process, with data about this machine. If it is None, built-in sizes are used.

    Fields of the result: ``sizes`` is "hub" if the Hub has listed the files of all checkpoints, or else "table".

    Fields of each checkpoint: ``download`` is the number of bytes that are not on disk. ``common`` is the number of
    these bytes in files that several checkpoints use. ``bits`` lists the weight formats that the device supports, with
    their memory and estimated real-time factor (``rtf``). ``chosen`` is the recommended weight format. ``memory``,
    ``rtf`` and ``fits`` are the values for the recommended format.
    """
    measured = measured or dict.fromkeys(FACTS)
    known = {offer["id"]: offer for offer in measured.get("offers", [])}
    counts = Counter(file for offer in known.values() for file in offer["missing"] or ())
    offers = []
    for checkpoint in PUBLISHED:
        offer = known.get(checkpoint.id, {})
        bits, chosen = offer.get("bits", []), offer.get("chosen")
        taken: dict[str, Any] = next((kind for kind in bits if kind["weights"] == chosen), {})
        missing = offer.get("missing")  # Number of missing bytes of each file, or None if the Hub did not respond.
        offers.append(
            {
                "id": checkpoint.id,
                "size": checkpoint.size,
                "kind": checkpoint.kind,
                "mode": str(checkpoint.mode),
                "licence": LICENCE,
                "download": checkpoint.download if missing is None else sum(missing.values()),
                "common": SPEECH_TOKENIZER_BYTES
                if missing is None
                else sum(missing[name] for name in missing if counts[name] > 1),
                "listed": missing is not None,
                "shared": offer.get("shared"),
                "bits": [kind | {"fits": kind["memory"] <= measured["total"]} for kind in bits],
                "chosen": chosen,
                "memory": taken.get("memory"),
                "rtf": taken.get("rtf"),
                "fits": taken["memory"] <= measured["total"] if taken else None,
                "suggested": False,
            }
        )
    plan = {name: measured[name] for name in FACTS}
    plan["sizes"] = "hub" if all(offer["listed"] for offer in offers) else "table"
    plan["offers"] = offers
    _suggest(plan)
    return plan


def total_memory(plan: dict[str, Any], models: list[str], bits: str = "") -> int:
    """Return the total memory that several checkpoints need in bytes, or 0 if it is unknown.

    `bits` is a weight format. If it is empty or auto, the format that the plan recommends for each checkpoint is used.
    """
    chosen = [offer for offer in plan["offers"] if offer["id"] in models and offer["memory"] is not None]
    kinds = [{kind["weights"]: kind["memory"] for kind in offer["bits"]} for offer in chosen]
    memory = [known.get(bits, offer["memory"]) for known, offer in zip(kinds, chosen, strict=True)]
    return sum(memory) - sum(offer["shared"] for offer in chosen[1:])


def _suggest(plan: dict[str, Any]) -> None:
    """Mark the suggested checkpoint for each mode: the largest one that is fast enough.

    If no checkpoint is fast enough, the smallest one is marked. Together, the marked checkpoints must fit into memory.
    """
    chosen: list[str] = []
    for mode in ("custom_voice", "base", "voice_design"):
        offers = [offer for offer in plan["offers"] if offer["mode"] == mode]
        fluent = [offer for offer in offers if offer["rtf"] is not None and offer["rtf"] <= MAX_FLUENT_RTF]
        wanted = [*reversed(fluent), *offers[:1]] if mode != "voice_design" else fluent
        for offer in wanted:
            if plan["total"] is None or total_memory(plan, [*chosen, offer["id"]]) <= plan["total"]:
                offer["suggested"] = True
                chosen.append(offer["id"])
                break


def _bits(body: dict[str, Any]) -> str:
    """Return the weight format in a request body, or an empty string.

    Raises:
        InvalidConfig: `quantize` is not a valid value of the setting.
    """
    word = body.get("quantize", "")
    if word != "" and word not in QUANTIZE_CHOICES:
        raise InvalidConfig(where="quantize", why=f"it must be {', '.join(QUANTIZE_CHOICES)}", param="quantize")
    return str(word)


def _models(body: dict[str, Any]) -> list[str]:
    """Return the checkpoints in a request body.

    Raises:
        InvalidConfig: `models` is not a list of one to three Hub ids.
    """
    models = body.get("models")
    if not isinstance(models, list) or not 1 <= len(models) <= MAX_CHECKPOINTS:
        raise InvalidConfig(where="models", why=f"give 1 to {MAX_CHECKPOINTS} checkpoints", param="models")
    is_each = all(isinstance(model, str) and HUB_ID.fullmatch(model) for model in models)
    if not is_each or len(set(models)) < len(models):
        raise InvalidConfig(where="models", why="each must be another Hub id (owner/name)", param="models")
    return models
