"""Test of the cluster's metrics, which contain the values of each replica and their sums."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from runtime.cluster.view import summed
from runtime.request import EngineLoad
from runtime.server.metrics import ServerMetrics


def test_metrics_contain_each_replica_and_the_sums() -> None:
    pages = {}
    for name, active, refusals in (("a", 3, 2), ("b", 1, 0)):
        metrics = ServerMetrics()
        for _ in range(refusals):
            metrics.count_refusal("overloaded")
        pages[name] = metrics.format_page(EngineLoad(slots=4, active=active, waiting=0, frames=10 * active)).decode()
    read = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(summed(pages).decode())
        for sample in family.samples
    }
    assert read["voicewright_active", (("replica", "a"),)] == 3
    assert read["voicewright_active", (("replica", "b"),)] == 1
    assert read["voicewright_cluster_active", ()] == 4
    assert read["voicewright_cluster_frames_total", ()] == 40
    assert read["voicewright_refusals_total", (("code", "overloaded"), ("replica", "a"))] == 2
    assert read["voicewright_cluster_refusals_total", (("code", "overloaded"),)] == 2
    assert read["voicewright_cluster_replicas", ()] == 2
    assert ("process_open_fds", (("replica", "b"),)) in read, "of the process too, where there is sense in no sum"
    assert not any(name.startswith("voicewright_cluster_process") for name, _ in read)
    assert summed({}) == (
        b"# HELP voicewright_cluster_replicas Replicas that respond\n"
        b"# TYPE voicewright_cluster_replicas gauge\nvoicewright_cluster_replicas 0.0\n"
    )
