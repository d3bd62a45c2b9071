"""Configuration of a cluster: pools of replicas, their settings and accelerators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from runtime.errors import InvalidSetting

GPU, NPU = "GPU", "NPU"  # Names of the resources in Ray.
# Ray resources that satisfy a device setting, in order of preference.
_COUNTED_FOR = {"auto": (GPU, NPU), "cuda": (GPU,), "npu": (NPU,)}


class Pool(BaseModel):
    """Pool of replicas with the same checkpoints and resources."""

    model_config = ConfigDict(extra="forbid")

    models: list[str] = Field(default_factory=list, description="[MODE=]PATH_OR_ID; none: the embedded voice")
    replicas: int = Field(default=1, ge=1)
    max_replicas: int = Field(default=0, ge=0, description="maximum number of replicas, by slots in use; 0: no scaling")
    gpus: float | None = Field(
        default=None,
        ge=0,
        description="GPUs that Ray reserves per replica; default: one GPU or NPU, if Ray has any and the device "
        "setting allows it; 0: none are reserved, and the replica sees all",
    )
    cpus: float = Field(default=0, ge=0, description="CPUs that Ray reserves per replica, and its number of threads")
    resources: dict[str, float] = Field(default_factory=dict, description="other Ray resources, such as an NPU")
    environment: dict[str, str] = Field(default_factory=dict, description="settings of these replicas only")

    def with_accelerators(self, device: str, counted: Mapping[str, float]) -> Self:
        """Return a copy of this pool that reserves one accelerator per replica in Ray.

        A number that is already set does not change. Without a reservation, two replicas on one machine would both open
        the first accelerator.

        Args:
            device: Device setting of the replicas.
            counted: Amount of each resource in the Ray cluster, such as the number of GPUs, by name.
        """
        if self.gpus is None and NPU not in self.resources:
            kind = next((kind for kind in _COUNTED_FOR.get(device, ()) if counted.get(kind)), None)
            if kind == GPU:
                return self.model_copy(update={"gpus": 1.0})
            if kind == NPU:
                return self.model_copy(update={"gpus": 0.0, "resources": {**self.resources, NPU: 1.0}})
        return self.model_copy(update={"gpus": self.gpus or 0.0})

    def accelerators(self) -> dict[str, float]:
        """Return the number of accelerators of one replica by kind (GPU, NPU)."""
        return {GPU: self.gpus or 0.0, NPU: self.resources.get(NPU, 0.0)}


class Arguments(BaseModel):
    """Arguments of `runtime.cluster.app.build`, such as pools and settings."""

    model_config = ConfigDict(extra="forbid")

    pools: dict[str, Pool] = Field(default_factory=lambda: {"speech": Pool.model_validate({})})
    environment: dict[str, str] = Field(default_factory=dict, description="settings of all processes, by their names")
    spread: bool = Field(default=False, description="several machines: replicas listen on each one's address")
    ingresses: int = Field(default=1, ge=1, description="machines with a public port, one ingress each")
    ingress_resources: dict[str, float] = Field(
        default_factory=dict, description="Ray resource of machines that run an ingress"
    )
    generation: int = Field(default=0, description="a new number replaces every replica, one after the other")


def free_accelerators(pools: Iterable[Pool], counted: Mapping[str, float]) -> dict[str, float]:
    """Return the number of unused accelerators of each kind (GPU, NPU).

    A negative number is the number of missing accelerators.

    Args:
        pools: Pools of replicas that reserve accelerators.
        counted: Number of accelerators in the Ray cluster by kind.
    """
    free = {kind: counted.get(kind, 0.0) for kind in (GPU, NPU)}
    for pool in pools:
        for kind, number in pool.accelerators().items():
            free[kind] -= pool.replicas * number
    return free


def check_accelerators(pools: Iterable[Pool], counted: Mapping[str, float]) -> None:
    """Check that the cluster has enough accelerators for all replicas.

    Without this check, Ray would wait forever.

    Raises:
        InvalidSetting: The cluster has too few accelerators.
    """
    for kind, free in free_accelerators(pools, counted).items():
        if free < 0:
            available = counted.get(kind, 0.0)
            why = (
                f"Ray has {available:g} of {kind} here, and all replicas together need {available - free:g}; use fewer "
                "replicas, let several share one (--gpus 0.5), or reserve none (--gpus 0)"
            )
            raise InvalidSetting(name="replicas", value="too many", why=why)
