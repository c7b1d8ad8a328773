"""Prometheus metrics of the local server."""

import time

from keras_headattn._optional import optional_import

SERVED = ("model", "version", "signature")
UNKNOWN = ("", "", "")
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Requests, latencies and loaded versions of a server's models.

    Labels name what is loaded, never what a request says, so the number of series is bounded.
    """

    def __init__(self, models):
        client = optional_import("prometheus_client", extra="serving")
        self.content_type = client.CONTENT_TYPE_LATEST
        self._generate, self._models, self._known = client.generate_latest, models, set()
        self._registry = client.CollectorRegistry()
        self._requests = client.Counter(
            "headattn_requests", "Requests to the API, by their status.", ("protocol", *SERVED, "code"),
            registry=self._registry,
        )  # fmt: skip
        self._seconds = client.Histogram(
            "headattn_request_seconds", "Time from a prediction's request to its answer, in seconds.",
            ("protocol", *SERVED), buckets=SECONDS, registry=self._registry,
        )  # fmt: skip
        self._loaded = client.Gauge(
            "headattn_version_loaded", "1 for each version that is served.", SERVED[:2], registry=self._registry
        )
        client.ProcessCollector(registry=self._registry)

    def begin(self, protocol):
        """Returns a `Request` that has just arrived by `"rest"` or `"grpc"`."""
        return Request(self._record, protocol)

    def _record(self, protocol, served, code, seconds):
        self._requests.labels(protocol, *served, code).inc()
        if served != UNKNOWN:
            self._seconds.labels(protocol, *served).observe(seconds)

    def text(self):
        """Returns the metrics in Prometheus's format, as bytes; unloaded versions are in it once more."""
        loaded = {(model.name, str(number)) for model in self._models.values() for number in model.loaded}
        for name, number in loaded:
            self._loaded.labels(name, number).set(1)
        gone, self._known = self._known - loaded, loaded
        for name, number in gone:
            self._loaded.remove(name, number)
        text = self._generate(self._registry)
        for name, number in gone:
            for metric in (self._requests, self._seconds):
                metric.remove_by_labels({"model": name, "version": number})
        return text


class Request:
    """Request whose model, version and signature become known while it is answered.

    Attributes:
        served: tuple of the labels `SERVED`.
    """

    def __init__(self, record, protocol):
        self._record, self._protocol, self._start = record, protocol, time.monotonic()
        self.served = UNKNOWN

    def found(self, model, number, signature):
        """Notes what answers the request."""
        self.served = model, str(number), signature

    def end(self, code):
        """Counts the request by the status of its answer."""
        self._record(self._protocol, self.served, str(code), time.monotonic() - self._start)
