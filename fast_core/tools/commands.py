"""The commands of `fastloop`. Each imports what it needs when it runs, so `--help` is instant."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fast_core import __version__
from fast_core.errors import ConfigError
from fast_core.system import surroundings

if TYPE_CHECKING:
    from fast_core.config import RunConfig
    from fast_core.launcher import Outcome


# Without Rich: it would cost more time than all the rest of `--help`.
app = typer.Typer(
    name="fastloop",
    help="Train reinforcement-learning policies as fast as the machine allows.",
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(
    help="Look at configurations and check them, without starting anything.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
app.add_typer(config_app, name="config")
demo_app = typer.Typer(
    help="Show what there is, without learning anything.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
app.add_typer(demo_app, name="demo")

Config = Annotated[
    Path,
    typer.Argument(
        metavar="CONFIG", help="YAML file of the run, or a name that `init --list` shows."
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")]
Trained = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run directory, or a checkpoint or policy file.")
]
Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="best, best-NAME, newest or a name in checkpoints/."),
]
Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        metavar="NAME",
        help="A module of yours that a policy file may import; can be given several times.",
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Whether to return only when it is done.")
]
Page = Annotated[
    bool, typer.Option("--dashboard", help="Serve a page that shows it while it trains.")
]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, metavar="N", help="Of the page; or the next free one. 0: any."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Such as algorithm.learning_rate=1e-4."),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fastloop {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Train reinforcement-learning policies as fast as the machine allows."""


@app.command()
def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Folder, made if it isn't there.")
    ] = None,
    name: Annotated[
        str, typer.Option("--from", metavar="NAME", help="Which configuration to copy.")
    ] = "ppo_cartpole",
    only_list: Annotated[
        bool, typer.Option("--list", help="Show the configurations that there are.")
    ] = False,
) -> None:
    """Copy a configuration to start from into a folder."""
    from fast_core.tools.init import begin, listing

    if only_list:
        typer.echo(listing())
        return
    if folder is None:
        raise ConfigError(
            "init needs a folder to copy the configuration into: `fastloop init DIR`; "
            "`fastloop init --list` shows which there are."
        )
    written = begin(folder, name)
    command = shlex.join(["fastloop", "launch", str(written)])
    typer.echo(f"{written} is yours to edit. Train as it says: {command}")


@app.command()
def launch(
    config: Config,
    overrides: Overrides = None,
    inline: Annotated[
        bool, typer.Option("--inline", help="Run every node in this process, for debuggers.")
    ] = False,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on from this run's newest checkpoint.")
    ] = None,
    dashboard: Page = False,
    port: Port = None,
) -> None:
    """Train as a configuration says."""
    asked = [*(overrides or ()), *(["mode=inline"] if inline else ()), *_page(dashboard, port)]
    run_config = _load(config, asked)
    _check_port(port, run_config)
    from fast_core.launcher import launch as launch_run

    raise _end(launch_run(run_config, resume_from=resume))


@app.command()
def resume(
    run: Run, overrides: Overrides = None, dashboard: Page = False, port: Port = None
) -> None:
    """Go on with a run from its newest complete checkpoint, or with a sweep."""
    overrides = [*(overrides or ()), *_page(dashboard, port)]
    if (run / "sweep.yaml").is_file():
        sweep(run, overrides)
    if port is not None and not dashboard:
        from fast_core.launcher.run import load_run_config
        from fast_core.monitor.run_directory import RunDirectory

        _check_port(port, load_run_config(RunDirectory.open(run), overrides))
    from fast_core.launcher import resume as resume_run

    raise _end(resume_run(run, overrides))


@app.command()
def watch(
    path: Annotated[
        Path, typer.Argument(metavar="RUN|DIRECTORY", help="A run, or a folder of runs.")
    ],
    port: Port = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to serve at; others need a token.")
    ] = "127.0.0.1",
    opens: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
) -> None:
    """Show a run, going on or ended, or all runs of a folder on a page in the browser."""
    from fast_core.tools.watch import watch as show

    raise typer.Exit(show(path, host=host, port=port, opens=opens))


@app.command()
def rerun(
    run: Run,
    until: Annotated[
        str | None,
        typer.Option(metavar="update=N", help="Stop after the ticket with this update."),
    ] = None,
) -> None:
    """Run a recorded run again in this process, bit for bit, for a debugger."""
    from fast_core.launcher import rerun as rerun_run

    raise _end(rerun_run(run, until))


@app.command()
def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="SWEEP", help="YAML file of the sweep, or its folder.")
    ],
    overrides: Overrides = None,
) -> None:
    """Train seeds and variants of a configuration side by side, or go on with that."""
    from fast_core.tools.sweep.run import sweep as carry_out

    raise typer.Exit(carry_out(file, overrides or []).exit_code)


@app.command()
def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run directories, or folders of runs or a sweep."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write an .svg, .png, .csv or .json."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of metrics.jsonl; eval/return_mean.")
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=1, metavar="ENV_STEPS", help="Compare there, not at the end.")
    ] = None,
    score: Annotated[
        float | None, typer.Option(metavar="VALUE", help="Count the env steps to this value too.")
    ] = None,
    across: Annotated[
        str | None, typer.Option(metavar="KEY", help="Take runs that differ in it as alike too.")
    ] = None,
) -> None:
    """Compare runs that differ in more than their seeds: mean, spread, interquartile mean."""
    surroundings.reserve_output()
    from fast_core.tools.compare.table import compare_and_show

    raise typer.Exit(
        compare_and_show(runs, output=output, metric=metric, at=at, score=score, across=across)
    )


@app.command("list")
def list_(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to look.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array instead.")] = False,
) -> None:
    """List runs, newest first: how each stands, what it reached, whether it can be resumed."""
    surroundings.reserve_output()
    from fast_core.tools.listing import show_runs

    raise typer.Exit(show_runs(folder, as_json=as_json))


@app.command()
def ps(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array instead.")] = False,
) -> None:
    """List your runs that go on on this machine: state, process, progress, rate."""
    surroundings.reserve_output()
    from fast_core.tools.control import show_running

    raise typer.Exit(show_running(as_json=as_json))


@app.command()
def stop(run: Run, wait: Wait = True) -> None:
    """End a run that goes on elsewhere, in order: it saves, as after Ctrl-C."""
    surroundings.reserve_output()
    from fast_core.tools.control import stop_run

    raise typer.Exit(stop_run(run, wait=wait))


@app.command()
def scale(
    run: Run,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="env=N|+N|-N", help="How many, or how many more; or policy=."),
    ],
    wait: Wait = True,
) -> None:
    """Add env or policy nodes to a run that goes on, or retire some; nothing stops or is lost."""
    surroundings.reserve_output()
    from fast_core.tools.control import scale_run

    raise typer.Exit(scale_run(run, changes, wait=wait))


@app.command()
def save(run: Run, wait: Wait = True) -> None:
    """Have a run that goes on elsewhere write a checkpoint now, and print where it is."""
    surroundings.reserve_output()
    from fast_core.tools.control import save_run

    raise typer.Exit(save_run(run, wait=wait))


@app.command("eval")
def evaluate(
    run: Trained,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Of environment.* and evaluation.*."),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes, instead of evaluation.episodes.")
    ] = None,
    render: Annotated[bool, typer.Option("--render", help="Show them in a window.")] = False,
    video: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write them to an .mp4 or .gif file.")
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the trajectories to an .npz or .csv file."),
    ] = None,
    checkpoint: Checkpoint = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the episodes, instead of the run's.")
    ] = None,
    repeat: Annotated[
        bool,
        typer.Option(
            "--repeat", help="Play the episodes of the run's own evaluations, not fresh ones."
        ),
    ] = False,
    explore: Annotated[
        bool, typer.Option("--explore", help="Act as in training, with exploration.")
    ] = False,
    modules: Modules = None,
) -> None:
    """Evaluate a policy of a run, the best one by default; prints one JSON object."""
    surroundings.reserve_output()
    from fast_core.tools.evaluate import evaluate_run

    raise typer.Exit(
        evaluate_run(
            run,
            episodes,
            overrides=overrides,
            render=render,
            video=video,
            record=record,
            checkpoint=checkpoint,
            seed=seed,
            repeat=repeat,
            explore=explore,
            modules=modules or (),
        )
    )


@app.command()
def export(
    run: Trained,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Its suffix says the format: .onnx, .pt2 (torch.export), .ts (TorchScript) or .h "
            "(plain C, without convolutions). A file that is there is replaced.",
        ),
    ],
    checkpoint: Checkpoint = None,
    modules: Modules = None,
) -> None:
    """Write a policy of a run to a file that acts without FastLoop, the best one by default."""
    surroundings.reserve_output()
    from fast_core.tools.export import export_run

    raise typer.Exit(export_run(run, output, checkpoint, modules or ()))


@app.command()
def play(
    what: Annotated[
        str, typer.Argument(metavar="RUN|CONFIG|ENV", help="What to watch, or to play yourself.")
    ],
    checkpoint: Checkpoint = None,
    modules: Modules = None,
) -> None:
    """Watch a run's policy in a window, or play an environment by keyboard."""
    from fast_core.tools.play import play as play_in_window

    raise typer.Exit(play_in_window(what, checkpoint, modules or ()))


@app.command()
def replay(
    run: Run,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="NAME", help="newest or a name in checkpoints/.")
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, help="How many rows of the highest priority to show.")
    ] = 10,
) -> None:
    """Show what the replay of a checkpoint holds; prints one JSON object."""
    surroundings.reserve_output()
    from fast_core.tools.replay_view import show_replay

    raise typer.Exit(show_replay(run, checkpoint, top))


@app.command()
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Which; all by default. `parallel [CONFIG] [KEY=VALUE]...` compares one worker "
            "with several on this machine.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter rounds.")] = False,
    only_list: Annotated[
        bool, typer.Option("--list", help="Show what there is and what it compares.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per benchmark instead.")
    ] = False,
    env: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Of parallel: environment to play in at random."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=2, help="Of parallel: how many; rollout.shards by default.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, metavar="S", help="Of parallel: of each measurement.")
    ] = None,
) -> None:
    """Run benchmarks against other libraries, from a checkout, or one worker against several."""
    if as_json:
        surroundings.reserve_output()
    if names and names[0] == "parallel":
        from fast_core.tools import parallel

        asked = parallel.Asked(names[1:], env, workers, seconds, quick)
        raise typer.Exit(parallel.run(asked, as_json=as_json))
    if env or workers or seconds:
        raise ConfigError("--env, --workers and --seconds belong to `fastloop bench parallel`")
    from fast_core.tools.bench import run

    raise typer.Exit(run(names or [], quick=quick, only_list=only_list, as_json=as_json))


@app.command()
def doctor() -> None:
    """Check this machine: cores, memory, limits, versions, CUDA, and what to change."""
    from fast_core.tools.doctor import diagnose, report

    findings = diagnose()
    typer.echo(report(findings))
    raise typer.Exit(0 if all(finding.ok for finding in findings) else 1)


@app.command(context_settings={"allow_interspersed_args": False})
def gops(
    script: Annotated[
        Path, typer.Argument(metavar="SCRIPT", help="A training script of GOPS, as it is.")
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="The script's own arguments.")
    ] = None,
    degree: Annotated[
        str | None,
        typer.Option(
            "--off-policy-degree",
            metavar="N",
            help="Rounds of samples that may be ahead of training; -1 or auto: the run chooses. "
            "By default 0, that is GOPS's own order, for serial trainers, else 1.",
        ),
    ] = None,
    samplers: Annotated[
        int | None,
        typer.Option(
            "--num-samplers", min=1, metavar="N", help="Of serial trainers; others say it."
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Calls of a sampler's sample() that make a round."),
    ] = None,
    async_eval: Annotated[
        bool, typer.Option(help="Whether training goes on while an evaluation runs.")
    ] = True,
    staleness: Annotated[
        int | None,
        typer.Option(
            "--max-gradient-staleness",
            min=0,
            metavar="N",
            help="With several algorithms: steps that may be committed between the weights of a "
            "gradient and its own step. By default one less than there are algorithms.",
        ),
    ] = None,
    fused: Annotated[
        bool,
        typer.Option(
            "--fused-optimizers",
            help="Take Adam's steps by PyTorch's fused kernel: faster, with other rounding.",
        ),
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option(help="Whether the script's start_tensorboard() starts a server.")
    ] = True,
) -> None:
    """Run a training script of GOPS with FastLoop's trainers, without Ray."""
    from fast_core.integrations.gops.script import run_script

    raise typer.Exit(
        run_script(
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
    )


@app.command(context_settings={"allow_interspersed_args": False})
def lightzero(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="A configuration of LightZero's, as it is.")
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Its own arguments.")
    ] = None,
    degree: Annotated[
        str | None,
        typer.Option(
            "--off-policy-degree",
            metavar="N",
            help="Collections that may be ahead of training, 1 by default; -1 or auto: the run "
            "chooses.",
        ),
    ] = None,
    collectors: Annotated[
        int | None, typer.Option("--num-collectors", min=1, metavar="N", help="1 by default.")
    ] = None,
    async_training: Annotated[
        bool | None,
        typer.Option(
            "--async-training/--own-loop",
            help="Whether collecting goes on while the learner trains, or LightZero's own loop.",
        ),
    ] = None,
    async_eval: Annotated[
        bool | None,
        typer.Option(
            "--async-eval/--no-async-eval", help="Whether both go on while an evaluation runs."
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="process, the default, or thread: where collectors are."),
    ] = None,
) -> None:
    """Train a configuration of LightZero's with collecting and evaluating beside training.

    Options win over the keys of the same names in its main_config.policy.
    """
    from fast_core.integrations.lightzero.script import run_config

    raise typer.Exit(
        run_config(
            config,
            arguments or [],
            off_policy_degree=degree,
            num_collectors=collectors,
            enable_async_training=async_training,
            enable_async_eval=async_eval,
            async_backend=backend,
        )
    )


@demo_app.command()
def screens(
    overrides: Overrides = None,
    env: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Environment, or a game of stable-retro; by default Airstriker-Genesis-v0, "
            "ALE/Breakout-v5 or CartPole-v1, whichever is installed.",
        ),
    ] = None,
    tiles: Annotated[int, typer.Option(min=1, max=32, help="How many.")] = 8,
    port: Port = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, metavar="S", help="How long; until Ctrl-C by default.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the run directory, in this folder."),
    ] = None,
) -> None:
    """Play at random in many environments and show them on a page; nothing is left of it."""
    from fast_core.tools.demo import screens as show_screens

    given = [*(overrides or ()), *_page(True, port)]
    raise _end(show_screens(env, tiles, given, seconds=seconds, keep=keep))


@config_app.command()
def schema(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the reference for people instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of configuration files."""
    from fast_core.algos.registry import REGISTRY, algorithm_config_type
    from fast_core.config import reference as config_reference

    algorithms = {name: algorithm_config_type(name) for name in REGISTRY}
    write = config_reference.markdown if markdown else config_reference.json_schema
    typer.echo(write(algorithms), nl=False)


@config_app.command()
def defaults(
    algorithm: Annotated[str, typer.Option(metavar="NAME", help="Algorithm to show.")] = "ppo",
) -> None:
    """Print a commented configuration file with every default."""
    from fast_core.algos.registry import algorithm_config_type
    from fast_core.config import reference as config_reference

    text = config_reference.template(algorithm, algorithm_config_type(algorithm))
    typer.echo(text, nl=False)


@config_app.command()
def validate(
    config: Config,
    overrides: Overrides = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print it with every default filled in.")
    ] = False,
) -> None:
    """Check a configuration file as a launch would: its environment is made and stepped once."""
    run_config = _load(config, overrides or [])
    from fast_core.launcher import validate as validate_run

    if status := validate_run(run_config):
        raise typer.Exit(status)
    if show:
        from fast_core.config.file import dumps

        typer.echo(dumps(run_config), nl=False)
    else:
        name, environment = run_config.algorithm.name, run_config.environment.id
        typer.echo(f"{config} is valid: run {run_config.name!r}, {name} on {environment}.")


def _check_port(port: int | None, config: RunConfig) -> None:
    if port is not None and not config.dashboard.enabled:
        raise ConfigError("--port is that of the page: add --dashboard, or leave it out.")


def _page(dashboard: bool, port: int | None) -> list[str]:
    """What the options of the page stand for."""
    at = [] if port is None else [f"dashboard.port={port}"]
    return [*(["dashboard.enabled=true"] if dashboard else ()), *at]


def _end(outcome: Outcome) -> typer.Exit:
    """Show what made a run fail, last of all."""
    if outcome.report:
        from fast_core.monitor.screen import show_failure

        show_failure(outcome.report)
    return typer.Exit(outcome.status)


def _load(path: Path, overrides: list[str]) -> RunConfig:
    from fast_core.algos.registry import algorithm_config_type
    from fast_core.config.file import load
    from fast_core.monitor.run_directory import RunDirectory

    RunDirectory(path.parent).look_where_it_began()  # it may be a run's own config.yaml
    return load(path, overrides, algorithm_config_type)
