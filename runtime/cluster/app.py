"""Ray Serve application with pools of runtimes, a directory of replicas and an ingress.

The ingress runs HAProxy on the public port. For ``serve deploy``, the import path is ``runtime.cluster.app:build``, and
``args`` has the fields of `Arguments`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import ray
from ray import serve

from runtime.cluster.arguments import Arguments, Pool, free_accelerators
from runtime.cluster.directory import Directory
from runtime.cluster.ingress import Ingress
from runtime.cluster.replica import RuntimeReplica
from runtime.settings import Settings
from runtime.variables import PREFIX, warn_of_unknown
from runtime.version import package_version

_SCALE = {"replicas", "max_replicas"}
# Settings for the number of replicas. If only these settings change, no replica is replaced.
_SCALES = {"VOICEWRIGHT_REPLICAS", "VOICEWRIGHT_SLOTS_TARGET"}
_MARGIN_S = 20.0  # Seconds between the end of the drain timeout and the time at which Ray Serve kills the replica.


def build(args: Arguments | Mapping[str, Any]) -> Any:
    """Create the Ray Serve application for `serve.run` or ``serve deploy``.

    Args:
        args: `Arguments`, or the ``args`` of the deployment file as a mapping.

    Raises:
        ValidationError: The arguments are invalid.
        InvalidSetting: A setting is invalid.
    """
    counted = ray.cluster_resources() if ray.is_initialized() else {}
    arguments = with_accelerators(Arguments.model_validate(args), counted)
    environment = environment_of(arguments)
    warn_of_unknown({**environment, **{name: "" for pool in arguments.pools.values() for name in pool.environment}})
    settings = Settings.from_env(environment)
    fixed = sorted((name, value) for name, value in environment.items() if name not in _SCALES)
    stamp = repr((package_version(), fixed, arguments.spread))
    directory = serve.deployment(
        Directory, name="directory", max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0}
    )
    directory = _stamped(directory, package_version()).bind()
    free = free_accelerators(arguments.pools.values(), counted)
    pools = [
        _pool(name, pool, directory, environment, arguments, settings, stamp, free)
        for name, pool in arguments.pools.items()
    ]
    ingress = serve.deployment(
        Ingress,
        name="ingress",
        num_replicas=arguments.ingresses,
        **({"max_replicas_per_node": 1} if arguments.spread else {}),
        ray_actor_options={"num_cpus": 0, "resources": arguments.ingress_resources},
        health_check_period_s=1,
        graceful_shutdown_timeout_s=settings.server.drain_s + _MARGIN_S,
    )
    return _stamped(ingress, stamp).bind(directory, environment, *pools, folder=folder_of(settings))


def with_accelerators(arguments: Arguments, counted: Mapping[str, float]) -> Arguments:
    """Return a copy of the arguments that sets the number of accelerators in every pool.

    Numbers that are already set do not change.

    Args:
        arguments: Description of the cluster.
        counted: Amount of each resource in the Ray cluster, such as the number of GPUs, by name.

    Raises:
        InvalidSetting: A setting is invalid.
    """
    environment = environment_of(arguments)
    pools = {
        name: pool.with_accelerators(Settings.from_env({**environment, **pool.environment}).engine.device, counted)
        for name, pool in arguments.pools.items()
    }
    return arguments.model_copy(update={"pools": pools})


def environment_of(arguments: Arguments) -> dict[str, str]:
    """Return the settings of all processes as environment variables.

    The settings in ``arguments`` override the settings of this process.
    """
    variables = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    return {**variables, **arguments.environment}


def folder_of(settings: Settings) -> str:
    """Return the folder for HAProxy's files on this machine.

    The name contains the public port. The path is short because Unix socket names have a limited length.
    """
    return os.path.join(tempfile.gettempdir(), f"voicewright-{os.getuid()}-{settings.server.port}")


def _pool(
    name: str,
    pool: Pool,
    directory: Any,
    environment: Mapping[str, str],
    arguments: Arguments,
    settings: Settings,
    stamp: str,
    free: Mapping[str, float],
) -> Any:
    # If all accelerators are in use, an old replica must stop before a new replica can start.
    can_surge = arguments.spread or all(free[kind] >= number for kind, number in pool.accelerators().items() if number)
    scaled: dict[str, Any] = {"num_replicas": pool.replicas}
    if pool.max_replicas > pool.replicas:
        scaled = {
            "autoscaling_config": {
                "min_replicas": pool.replicas,
                "initial_replicas": pool.replicas,
                "max_replicas": pool.max_replicas,
                "look_back_period_s": 15,  # Replicas report every 10 s, so every period of 15 s contains a report.
                "upscale_delay_s": 5,
                "downscale_delay_s": 120,
                "policy": {
                    "policy_function": "runtime.cluster.autoscaling:slots_in_use",
                    "policy_kwargs": {"target": settings.cluster.slots_target},
                },
            }
        }
    deployment = serve.deployment(
        RuntimeReplica,
        name=name,
        max_surge_percent=settings.cluster.surge_percent if can_surge else 0,
        health_check_period_s=1,
        health_check_timeout_s=10,
        graceful_shutdown_timeout_s=settings.server.drain_s + _MARGIN_S,
        ray_actor_options={"num_cpus": pool.cpus, "num_gpus": pool.gpus, "resources": pool.resources},
        **scaled,
    )
    return _stamped(
        deployment, repr((sorted(pool.model_dump(exclude=_SCALE).items()), stamp, arguments.generation))
    ).bind(
        directory,
        pool=name,
        models=pool.models,
        environment={**environment, **pool.environment},
        host="node" if arguments.spread else "127.0.0.1",
        generation=arguments.generation,
    )


def _stamped(deployment: Any, configuration: str) -> Any:
    """Return the deployment with a version that is a hash of ``configuration``.

    Serve replaces replicas only if their version changes. Without a version, Serve would replace all replicas at every
    change (see the scaling test in tests/wire/test_cluster.py). A private attribute is set here, because Serve does not
    accept its public argument ``version``.
    """
    deployment._version = hashlib.sha256(configuration.encode()).hexdigest()[:16]
    return deployment
