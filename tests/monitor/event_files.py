"""Reads TensorBoard files the way TensorBoard does."""

from __future__ import annotations

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

Points = list[tuple[int, float]]


def read_scalars(directory: Path) -> dict[str, Points]:
    """Every scalar of a run by tag, as (step, value), purged points left out."""
    reader = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    reader.Reload()
    return {
        tag: [(event.step, event.value) for event in reader.Scalars(tag)]
        for tag in reader.Tags()["scalars"]
    }
