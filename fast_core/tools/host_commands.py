"""The commands that train other libraries' scripts and configurations; `commands` names them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated

from fast_core.tools.command_line import Argument, Option


def _client(what: str) -> Callable[..., int]:
    """A function of a client, by its name: nothing of the core imports one."""
    module, _, function = what.partition(":")
    found: Callable[..., int] = getattr(import_module(f"fast_core.clients.{module}"), function)
    return found


def gops(
    script: Annotated[Path, Argument("SCRIPT", "A training script of GOPS, as it is.")],
    arguments: Annotated[list[str] | None, Argument("ARGS", "The script's own arguments.")] = None,
    degree: Annotated[
        str | None,
        Option(
            "--off-policy-degree",
            metavar="N",
            help="Rounds of samples that may be ahead of training; -1 or auto: the run chooses. "
            "By default 0, that is GOPS's own order, for serial trainers, else 1.",
        ),
    ] = None,
    samplers: Annotated[
        int | None,
        Option("--num-samplers", least=1, metavar="N", help="Of serial trainers; others say it."),
    ] = None,
    samples: Annotated[
        int | None,
        Option(least=1, metavar="N", help="Calls of a sampler's sample() that make a round."),
    ] = None,
    async_eval: Annotated[
        bool, Option(help="Whether training goes on while an evaluation runs.")
    ] = True,
    staleness: Annotated[
        int | None,
        Option(
            "--max-gradient-staleness",
            least=0,
            metavar="N",
            help="With several algorithms: steps that may be committed between the weights of a "
            "gradient and its own step. By default one less than there are algorithms.",
        ),
    ] = None,
    fused: Annotated[
        bool,
        Option(
            "--fused-optimizers",
            help="Take Adam's steps by PyTorch's fused kernel: faster, with other rounding.",
        ),
    ] = False,
    tensorboard: Annotated[
        bool, Option(help="Whether the script's start_tensorboard() starts a server.")
    ] = True,
) -> int:
    """Run a training script of GOPS with FastLoop's trainers, without Ray."""
    return _client("gops.script:run_script")(
        script,
        arguments or [],
        off_policy_degree=degree,
        num_samplers=samplers,
        samples_per_round=samples,
        enable_async_eval=async_eval,
        max_gradient_staleness=staleness,
        fused_optimizers=fused,
        tensorboard=tensorboard,
    )


def lightzero(
    config: Annotated[Path, Argument("CONFIG", "A configuration of LightZero's, as it is.")],
    arguments: Annotated[list[str] | None, Argument("ARGS", "Its own arguments.")] = None,
    degree: Annotated[
        str | None,
        Option(
            "--off-policy-degree",
            metavar="N",
            help="Collections that may be ahead of training, 1 by default; -1 or auto: the run "
            "chooses.",
        ),
    ] = None,
    collectors: Annotated[
        int | None, Option("--num-collectors", least=1, metavar="N", help="1 by default.")
    ] = None,
    async_training: Annotated[
        bool | None,
        Option(
            "--async-training/--own-loop",
            help="Whether collecting goes on while the learner trains, or LightZero's own loop.",
        ),
    ] = None,
    async_eval: Annotated[
        bool | None,
        Option("--async-eval/--no-async-eval", help="Whether both go on while an evaluation runs."),
    ] = None,
    backend: Annotated[
        str | None,
        Option(metavar="NAME", help="process, the default, or thread: where collectors are."),
    ] = None,
) -> int:
    """Train a configuration of LightZero's with collecting and evaluating beside training.

    Options win over the keys of the same names in its main_config.policy.
    """
    return _client("lightzero.script:run_config")(
        config,
        arguments or [],
        off_policy_degree=degree,
        num_collectors=collectors,
        enable_async_training=async_training,
        enable_async_eval=async_eval,
        async_backend=backend,
    )
