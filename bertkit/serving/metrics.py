"""Counters of the server for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server; they hold no texts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "bertkit_requests", "Requests by route and HTTP status.", ["route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "bertkit_request_duration_seconds", "From the head of a request to its answer.", registry=self._registry
        )
        self.waiting = Gauge("bertkit_queue_size", "Requests that wait or are computed.", registry=self._registry)
        self._texts = Histogram("bertkit_batch_texts", "Texts of a batch.", buckets=_SIZES, registry=self._registry)
        self._requests = Histogram(
            "bertkit_batch_requests", "Requests of a batch.", buckets=_SIZES, registry=self._registry
        )
        self._tokens = Counter("bertkit_tokens", "Tokens computed, without padding.", registry=self._registry)
        self._tokens_so_far = 0

    def computed(self, texts: int, requests: int, tokens_so_far: int) -> None:
        """Counts a batch."""
        self._texts.observe(texts)
        self._requests.observe(requests)
        self._tokens.inc(tokens_so_far - self._tokens_so_far)
        self._tokens_so_far = tokens_so_far

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
