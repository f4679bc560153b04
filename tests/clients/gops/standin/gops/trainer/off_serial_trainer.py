"""One after the other: sample, draw, update."""

from __future__ import annotations

from typing import Any

import ray
import torch
from torch.utils.tensorboard import SummaryWriter

from gops.utils.log_data import LogData
from gops.utils.tensorboard_setup import add_scalars, tb_tags


class SerialTrainer:
    """What both have: figures, files and evaluations."""

    def __init__(self, alg: Any, sampler: Any, evaluator: Any, **kwargs: Any) -> None:
        self.alg, self.sampler, self.evaluator = alg, sampler, evaluator
        self.networks = sampler.networks = alg.networks
        if kwargs["ini_network_dir"] is not None:
            self.networks.load_state_dict(torch.load(kwargs["ini_network_dir"]))
        self.given, self.folder = kwargs, kwargs["save_folder"]
        self.sampled = LogData()
        self.iteration = self.evaluated = 0
        self.writer = SummaryWriter(log_dir=self.folder, flush_secs=20)

    def take(self) -> Any:
        batch, figures = self.sampler.sample()
        self.sampled.add_average(figures)
        return batch

    def batch(self) -> Any:
        raise NotImplementedError

    def step(self) -> None:
        batch, iteration = self.batch(), self.iteration
        self.networks.train()
        figures = self.alg.local_update(batch, iteration)
        self.networks.eval()
        if iteration % self.given["log_save_interval"] == 0:
            add_scalars(figures, self.writer, iteration)
            add_scalars(self.sampled.pop(), self.writer, iteration)
        if iteration % self.given["apprfunc_save_interval"] == 0:
            self.save_apprfunc()
        if iteration - self.evaluated >= self.given["eval_interval"]:
            self.evaluated = iteration
            self.evaluator.load_state_dict.remote(self.networks.state_dict())
            score = ray.get(self.evaluator.run_evaluation.remote(iteration))
            self.writer.add_scalar(tb_tags["TAR of RL iteration"], score, iteration)

    def train(self) -> None:
        while self.iteration < self.given["max_iteration"]:
            self.step()
            self.iteration += 1
        self.save_apprfunc()
        self.writer.close()

    def save_apprfunc(self) -> None:
        path = f"{self.folder}/apprfunc/apprfunc_{self.iteration}.pkl"
        torch.save(self.networks.state_dict(), path)


class OffSerialTrainer(SerialTrainer):
    def __init__(self, alg: Any, sampler: Any, buffer: Any, evaluator: Any, **kwargs: Any) -> None:
        super().__init__(alg, sampler, evaluator, **kwargs)
        self.buffer = buffer
        while buffer.size < kwargs["buffer_warm_size"]:
            buffer.add_batch(sampler.sample()[0])

    def batch(self) -> Any:
        if self.iteration % self.given["sample_interval"] == 0:
            self.buffer.add_batch(self.take())
        return self.buffer.sample_batch(self.given["replay_batch_size"])
