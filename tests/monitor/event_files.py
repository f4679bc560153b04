"""Reads TensorBoard files the way TensorBoard does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.hparams import backend_context, list_session_groups
from tensorboard.plugins.hparams.api_pb2 import ColParams, ListSessionGroupsRequest, Status

Points = list[tuple[int, float]]


def read_scalars(directory: Path) -> dict[str, Points]:
    """Every scalar of a run by tag, as (step, value), purged points left out."""
    reader = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    reader.Reload()
    return {
        tag: [(event.step, event.value) for event in reader.Scalars(tag)]
        for tag in reader.Tags()["scalars"]
    }


def read_images(directory: Path) -> dict[str, list[tuple[int, int, int, bytes]]]:
    """Every picture of a run by tag, as (step, width, height, file)."""
    reader = EventAccumulator(str(directory), size_guidance={"images": 0})
    reader.Reload()
    return {
        tag: [(e.step, e.width, e.height, e.encoded_image_string) for e in reader.Images(tag)]
        for tag in reader.Tags()["images"]
    }


@dataclass(frozen=True)
class Session:
    """One run as the HParams plugin shows it."""

    hyperparameters: dict[str, bool | float | str]
    metrics: dict[str, float]
    status: str


def read_sessions(logdir: Path) -> dict[str, Session]:
    """What the HParams plugin shows of the runs under a folder, by run."""
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(logdir)).Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(logdir))
    context = backend_context.Context(TBContext(data_provider=provider))
    asked = RequestContext()
    found = provider.list_hyperparameters(asked, experiment_ids=[""])
    metadata = context.hparams_metadata(asked, "")
    columns = context.experiment_from_metadata(asked, "", True, metadata, found)
    request = ListSessionGroupsRequest(
        start_index=0, slice_size=100, allowed_statuses=Status.values()
    )
    request.col_params.extend(ColParams(hparam=info.name) for info in columns.hparam_infos)
    answer = list_session_groups.Handler(asked, context, "", request).run()
    shown = {}
    for group in answer.session_groups:
        (session,) = group.sessions
        values = {key: getattr(v, v.WhichOneof("kind")) for key, v in group.hparams.items()}
        metrics = {each.name.tag: each.value for each in session.metric_values}
        status = Status.Name(session.status).removeprefix("STATUS_")
        shown[session.name] = Session(values, metrics, status)
    return shown
