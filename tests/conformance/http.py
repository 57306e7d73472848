"""Plain HTTP without any client library: bytes as they are."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

OF_MODEL = {"model", "lane", "paradigm"}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def post(url: str, path: str, body: dict[str, Any], **headers: str) -> Reply:
    """Send ``body``; whatever comes back, errors included."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json", **headers})
    return _reply(request)


def get(url: str, path: str) -> Reply:
    return _reply(urllib.request.Request(url + path))


def _reply(request: urllib.request.Request) -> Reply:
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return Reply(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, dict(error.headers), error.read())


def gauges(url: str) -> dict[str, float]:
    """Every metric that has no labels but its model's, by name."""
    families = text_string_to_metric_families(get(url, "/metrics").body.decode())
    samples = (sample for family in families for sample in family.samples)
    return {sample.name: sample.value for sample in samples if not sample.labels.keys() - OF_MODEL}
