"""Figures for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "Metrics"]

_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)


class Metrics:
    """What one server counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "shadowmaskformer_requests", "Answers, by path and status.", ["path", "status"], registry=self._registry
        )
        self._jobs = Histogram(
            "shadowmaskformer_job_seconds",
            "Time that jobs ran, by task and how they ended.",
            ["task", "state"],
            buckets=_SECONDS,
            registry=self._registry,
        )

    def answered(self, path: str, status: int) -> None:
        """Count an answer; `path` is a route, not what the client wrote."""
        self._requests.labels(path, str(status)).inc()

    def finished(self, task: str, state: str, seconds: float) -> None:
        """Count a job that has run."""
        self._jobs.labels(task, state).observe(seconds)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """Report `value()` whenever the figures are read."""
        Gauge(f"shadowmaskformer_{name}", about, registry=self._registry).set_function(value)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        return generate_latest(self._registry)
