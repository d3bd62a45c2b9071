"""Prometheus page of the cluster: every replica's metrics under its name, and their sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

CONTENT_TYPE = CONTENT_TYPE_LATEST
OURS = "voicewright_"
SUM = "voicewright_cluster_"  # Prefix of summed metrics.


class _Page:
    """Registry interface of `generate_latest`."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def summed(pages: Mapping[str, str]) -> bytes:
    """One page of all: each sample with the label ``replica``, and those of ours summed as ``voicewright_cluster_…``.

    Counters, gauges and the buckets of histograms are sums; when a metric was created is no figure and left out.
    """
    joined: dict[str, Metric] = {}
    totals: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = defaultdict(lambda: defaultdict(float))
    for replica, page in pages.items():
        for family in text_string_to_metric_families(page):
            metric = joined.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                if sample.name.endswith("_created"):
                    continue
                metric.add_sample(sample.name, {**sample.labels, "replica": replica}, sample.value)
                if family.name.startswith(OURS):
                    totals[family.name][sample.name, tuple(sorted(sample.labels.items()))] += sample.value
    count = Metric(f"{SUM}replicas", "Replicas that answer", "gauge")
    count.add_sample(f"{SUM}replicas", {}, len(pages))
    sums = [count]
    for name, samples in totals.items():
        known = joined[name]
        metric = Metric(SUM + name.removeprefix(OURS), f"{known.documentation}, of all replicas", known.type)
        for (sample_name, labels), value in samples.items():
            metric.add_sample(SUM + sample_name.removeprefix(OURS), dict(labels), value)
        sums.append(metric)
    return generate_latest(_Page([*joined.values(), *sums]))  # generate_latest only calls collect.
