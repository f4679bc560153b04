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

    def curves(self, groups: list[str], runs: list[str]) -> bytes:
        """The curves of groups and of single runs by their ids, as JSON."""
        with self._lock:
            found = {each: self._both(self.overview.curve, each) for each in groups}
            found |= {each: self._both(self.overview.run_curve, each) for each in runs}
            return _json.encode(found)

    def _both(self, curve: Callable[[str, str], Curve], id_: str) -> dict[str, Curve]:
        evaluation, training = METRICS
        return {"evaluation": curve(id_, evaluation), "training": curve(id_, training)}

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
        groups, runs = asked.getlist("group"), asked.getlist("run")
        if len(groups) + len(runs) > MOST_CURVES:
            return PlainTextResponse(f"at most {MOST_CURVES} curves can be asked for\n", 400)
        data = await run_in_threadpool(self.curves, groups, runs)
        return Response(data, media_type="application/json")
