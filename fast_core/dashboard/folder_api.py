"""What the page of a folder of runs asks its server for."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from fast_core.dashboard.curves import METRICS, Curve
from fast_core.dashboard.overview import Overview

MOST_CURVES = 64  # asked for at once
MOST_LETTERS = 200  # of a metric's name
_LOOK_S = 1.0  # at least, between two looks at the folder
_SHARE = 0.05  # of the time, at most, for looking
_LONGEST_S = 30.0

_json = msgspec.json.Encoder()


class FolderApi:
    """Answers the page; the folder is looked at while somebody asks, and at no other time.

    Concurrency: requests are answered in threads, one of them at a time.
    """

    def __init__(self, overview: Overview, clock: Callable[[], float] = time.monotonic) -> None:
        self.overview = overview
        self._clock = clock
        self._lock = Lock()
        self._due_s = -1.0

    @property
    def looked(self) -> bool:
        """Whether the folder was looked at yet."""
        return self._due_s >= 0

    def routes(self) -> list[BaseRoute]:
        """``api/runs`` and ``api/curves``."""
        return [Route("/api/runs", self._runs), Route("/api/curves", self._curves)]

    def news(self, mark: str) -> bytes:
        """News since a mark, as JSON."""
        with self._lock:
            self._look()
            return _json.encode(self.overview.news(mark))

    def curves(self, ids: list[str], metric: str = "") -> bytes:
        """The curves of groups and of single runs by their ids, as JSON.

        Beside those of both returns, and the names of all, that of a ``metric`` where one is asked.
        """
        with self._lock:
            return _json.encode({each: self._curves_of(each, metric) for each in ids})

    def _curves_of(self, id_: str, metric: str) -> dict[str, Curve | list[str]]:
        shown = dict(zip(("evaluation", "training"), METRICS, strict=True))
        shown |= {"chosen": metric} if metric else {}
        curves = {name: self.overview.curve(id_, each) for name, each in shown.items()}
        return {**curves, "metrics": self.overview.metrics(id_)}

    def _look(self) -> None:
        began_s = self._clock()
        if began_s < self._due_s:
            return
        self.overview.look()
        ended_s = self._clock()
        rest_s = (ended_s - began_s) / _SHARE
        self._due_s = ended_s + min(max(_LOOK_S, rest_s), _LONGEST_S)

    async def _runs(self, request: Request) -> Response:
        data = await run_in_threadpool(self.news, request.query_params.get("since", ""))
        return Response(data, media_type="application/json")

    async def _curves(self, request: Request) -> Response:
        asked = request.query_params
        ids, metric = asked.getlist("id"), asked.get("metric", "")
        if len(ids) > MOST_CURVES or len(metric) > MOST_LETTERS:
            text = f"at most {MOST_CURVES} curves, of a metric of {MOST_LETTERS} letters\n"
            return PlainTextResponse(text, 400)
        data = await run_in_threadpool(self.curves, ids, metric)
        return Response(data, media_type="application/json")
