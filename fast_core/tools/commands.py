"""The commands of `fastloop`. Each imports what it needs when it runs, so `--help` is instant."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fast_core.errors import ConfigError
from fast_core.system import surroundings
from fast_core.system.installed import VERSION
from fast_core.tools.command_line import Argument, Option, Program
from fast_core.tools.config_commands import defaults, explain, load, schema
from fast_core.tools.host_commands import gops, lightzero

if TYPE_CHECKING:
    from fast_core.config import RunConfig
    from fast_core.launcher import Outcome

program = Program("Train reinforcement-learning policies as fast as the machine allows.", VERSION)

Config = Annotated[
    Path,
    Argument("CONFIG", "YAML file of the run, or a name that `init --list` shows.", words="config"),
]
Run = Annotated[Path, Argument("RUN", "Run directory.")]
Trained = Annotated[Path, Argument("RUN", "Run directory, or a checkpoint or policy file.")]
Checkpoint = Annotated[
    str | None, Option(metavar="NAME", help="best, best-NAME, newest or a name in checkpoints/.")
]
Modules = Annotated[
    list[str] | None,
    Option(
        "--module",
        metavar="NAME",
        help="A module of yours that a policy file may import; can be given several times.",
    ),
]
Wait = Annotated[bool, Option(help="Whether to return only when it is done.")]
Page = Annotated[bool, Option(help="Serve a page that shows it while it trains.")]
Port = Annotated[
    int | None,
    Option(least=0, most=65535, metavar="N", help="Of the page; or the next free one. 0: any."),
]
Overrides = Annotated[
    list[str] | None,
    Argument("KEY=VALUE", "Such as algorithm.learning_rate=1e-4.", words="override"),
]
Json = Annotated[bool, Option("--json", "Print a JSON array instead.")]
Inline = Annotated[bool, Option(help="Run every node in this process, for debuggers.")]


@program.command(
    "init", "fastloop init mine", "fastloop init mine --from sac_pendulum", "fastloop init --list"
)
def init(
    folder: Annotated[Path | None, Argument("DIR", "Folder, made if it isn't there.")] = None,
    name: Annotated[
        str, Option("--from", metavar="NAME", help="Which configuration to copy.")
    ] = "ppo_cartpole",
    only_list: Annotated[bool, Option("--list", "Show the configurations that there are.")] = False,
) -> int:
    """Copy a configuration to start from into a folder."""
    from fast_core.tools.init import begin, listing

    if only_list:
        print(listing())
        return 0
    if folder is None:
        raise ConfigError(
            "init needs a folder to copy the configuration into: `fastloop init DIR`; "
            "`fastloop init --list` shows which there are."
        )
    written = begin(folder, name)
    command = shlex.join(["fastloop", "launch", str(written)])
    print(f"{written} is yours to edit. Train as it says: {command}")
    return 0


@program.command(
    "train",
    "fastloop train ppo --env CartPole-v1",
    "fastloop train sac --env Pendulum-v1 stop.env_steps=20_000 seed=1",
    "fastloop train ppo --env my_module:MyEnv environment.kwargs.size=5",
)
def train(
    algorithm: Annotated[
        str,
        Argument("ALGORITHM", "ppo, sac, dqn, ... or one of your own, module:Class.", "algorithm"),
    ],
    overrides: Overrides = None,
    env: Annotated[
        str | None,
        Option(metavar="ID", help="Gymnasium's id, or module:Class.", words="environment"),
    ] = None,
    inline: Inline = False,
    dashboard: Page = False,
    port: Port = None,
) -> int:
    """Train with an algorithm's defaults on an environment, without a configuration file.

    For a million env steps unless a key of `stop` is given. Atari games have the usual
    preprocessing and four frames.
    """
    from fast_core.tools.init import of_environment

    asked = _asked(overrides, inline, dashboard, port)
    return _launch(of_environment(algorithm, env, asked), port, None)


@program.command(
    "launch",
    "fastloop launch ppo_cartpole",
    "fastloop launch base.yaml seed=1 algorithm.learning_rate=1e-4",
    "fastloop launch algorithm.name=ppo environment.id=CartPole-v1",
)
def launch(
    config: Config,
    overrides: Overrides = None,
    inline: Inline = False,
    resume: Annotated[
        Path | None, Option(metavar="RUN", help="Go on from this run's newest checkpoint.")
    ] = None,
    dashboard: Page = False,
    port: Port = None,
) -> int:
    """Train as a configuration says."""
    return _launch(load(config, _asked(overrides, inline, dashboard, port)), port, resume)


@program.command(
    "resume",
    "fastloop resume runs/ppo_cartpole",
    "fastloop resume runs/ppo_cartpole stop.env_steps=200_000",
)
def resume(
    run: Run, overrides: Overrides = None, dashboard: Page = False, port: Port = None
) -> int:
    """Go on with a run from its newest complete checkpoint, or with a sweep."""
    overrides = [*(overrides or ()), *_page(dashboard, port)]
    if (run / "sweep.yaml").is_file():
        return sweep(run, overrides)
    if port is not None and not dashboard:
        from fast_core.launcher.run import load_run_config
        from fast_core.monitor.run_directory import RunDirectory
        from fast_core.monitor.run_state import no_checkpoint

        found = RunDirectory.open(run, no_checkpoint)
        run = found.path
        _check_port(port, load_run_config(found, overrides))
    from fast_core.launcher.run import resume as resume_run

    return _end(resume_run(run, overrides))


@program.command("watch", "fastloop watch runs", "fastloop watch runs/ppo_cartpole --open")
def watch(
    path: Annotated[Path, Argument("RUN|DIRECTORY", "A run, or a folder of runs.")],
    port: Port = None,
    host: Annotated[
        str, Option(metavar="ADDRESS", help="Address to serve at; others need a token.")
    ] = "127.0.0.1",
    opens: Annotated[bool, Option("--open", "Show it in a browser.")] = False,
    plays: Annotated[
        bool, Option("--play", "Let the policy of a run that has ended play there.")
    ] = False,
) -> int:
    """Show a run, going on or ended, or all runs of a folder on a page in the browser."""
    from fast_core.tools.watch import watch as show

    return show(path, host=host, port=port, opens=opens, plays=plays)


@program.command(
    "rerun",
    "fastloop rerun runs/ppo_cartpole",
    "fastloop rerun runs/ppo_cartpole --until update=100",
)
def rerun(
    run: Run,
    until: Annotated[
        str | None, Option(metavar="update=N", help="Stop after the ticket with this update.")
    ] = None,
) -> int:
    """Run a recorded run again in this process, bit for bit, for a debugger."""
    from fast_core.launcher.rerun import rerun as rerun_run

    return _end(rerun_run(run, until))


@program.command("sweep", "fastloop sweep sweep.yaml", "fastloop sweep sweep.yaml jobs=2")
def sweep(
    file: Annotated[Path, Argument("SWEEP", "YAML file of the sweep, or its folder.")],
    overrides: Overrides = None,
) -> int:
    """Train seeds and variants of a configuration side by side, or go on with that."""
    from fast_core.tools.sweep.run import sweep as carry_out

    return carry_out(file, overrides or []).exit_code


@program.command(
    "compare",
    "fastloop compare runs",
    "fastloop compare runs/a runs/b -o curves.svg",
    "fastloop compare runs --metric train/policy_loss --at 100_000",
)
def compare(
    runs: Annotated[list[Path], Argument("RUN", "Run directories, or folders of runs or a sweep.")],
    output: Annotated[
        Path | None,
        Option("-o --output", metavar="FILE", help="Write an .svg, .png, .csv or .json."),
    ] = None,
    metric: Annotated[
        str | None, Option(metavar="NAME", help="Of metrics.jsonl; eval/return_mean.")
    ] = None,
    at: Annotated[
        int | None, Option(least=1, metavar="ENV_STEPS", help="Compare there, not at the end.")
    ] = None,
    score: Annotated[
        float | None, Option(metavar="VALUE", help="Count the env steps to this value too.")
    ] = None,
    lower: Annotated[
        bool, Option(help="Take lower values for better, such as those of a cost.")
    ] = False,
    across: Annotated[
        str | None, Option(metavar="KEY", help="Take runs that differ in it as alike too.")
    ] = None,
) -> int:
    """Compare runs that differ in more than their seeds: mean, spread, interquartile mean."""
    surroundings.reserve_output()
    from fast_core.tools.compare.table import compare_and_show

    return compare_and_show(
        runs, output=output, metric=metric, at=at, score=score, across=across, lower=lower
    )


@program.command("list", "fastloop list", "fastloop list runs/ppo_cartpole --json")
def list_(
    folder: Annotated[Path, Argument("DIR", "Where to look.")] = Path("runs"),
    as_json: Json = False,
) -> int:
    """List runs, newest first: how each stands, what it reached, whether it can be resumed."""
    surroundings.reserve_output()
    from fast_core.tools.listing import show_runs

    return show_runs(folder, as_json=as_json)


@program.command("ps", "fastloop ps")
def ps(as_json: Json = False) -> int:
    """List your runs that go on on this machine: state, process, progress, rate."""
    surroundings.reserve_output()
    from fast_core.tools.control import show_running

    return show_running(as_json=as_json)


@program.command("stop", "fastloop stop runs/ppo_cartpole")
def stop(run: Run, wait: Wait = True) -> int:
    """End a run that goes on elsewhere, in order: it saves, as after Ctrl-C."""
    surroundings.reserve_output()
    from fast_core.tools.control import stop_run

    return stop_run(run, wait=wait)


@program.command("scale", "fastloop scale runs/ppo_cartpole env=+1")
def scale(
    run: Run,
    changes: Annotated[
        list[str], Argument("env=N|+N|-N", "How many, or how many more; or policy=.")
    ],
    wait: Wait = True,
) -> int:
    """Add env or policy nodes to a run that goes on, or retire some; nothing stops or is lost."""
    surroundings.reserve_output()
    from fast_core.tools.control import scale_run

    return scale_run(run, changes, wait=wait)


@program.command("save", "fastloop save runs/ppo_cartpole")
def save(run: Run, wait: Wait = True) -> int:
    """Have a run that goes on elsewhere write a checkpoint now, and print where it is."""
    surroundings.reserve_output()
    from fast_core.tools.control import save_run

    return save_run(run, wait=wait)


@program.command(
    "eval",
    "fastloop eval runs/ppo_cartpole",
    "fastloop eval runs/ppo_cartpole --episodes 5 --video film.mp4",
    "fastloop eval runs/ppo_cartpole environment.kwargs.sutton_barto_reward=true",
)
def evaluate(
    run: Trained,
    overrides: Annotated[
        list[str] | None, Argument("KEY=VALUE", "Of environment.* and evaluation.*.")
    ] = None,
    episodes: Annotated[
        int | None, Option(least=1, help="Episodes, instead of evaluation.episodes.")
    ] = None,
    render: Annotated[bool, Option(help="Show them in a window.")] = False,
    video: Annotated[
        Path | None, Option(metavar="FILE", help="Write them to an .mp4 or .gif file.")
    ] = None,
    record: Annotated[
        Path | None, Option(metavar="FILE", help="Write the trajectories to an .npz or .csv file.")
    ] = None,
    environment: Annotated[
        str | None,
        Option(metavar="NAME", help="In one of evaluation.environments, not that of training."),
    ] = None,
    checkpoint: Checkpoint = None,
    seed: Annotated[
        int | None, Option(least=0, help="Seed of the episodes, instead of the run's.")
    ] = None,
    repeat: Annotated[
        bool, Option(help="Play the episodes of the run's own evaluations, not fresh ones.")
    ] = False,
    explore: Annotated[bool, Option(help="Act as in training, with exploration.")] = False,
    modules: Modules = None,
) -> int:
    """Evaluate a policy of a run, the best one by default; prints one JSON object."""
    surroundings.reserve_output()
    from fast_core.tools.evaluate import evaluate_run

    return evaluate_run(
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
        environment=environment,
    )


@program.command(
    "export",
    "fastloop export runs/ppo_cartpole -o policy.onnx",
    "fastloop export runs/ppo_cartpole -o policy.h --checkpoint newest",
)
def export(
    run: Trained,
    output: Annotated[
        Path,
        Option(
            "-o --output",
            metavar="FILE",
            help="Its suffix says the format: .onnx, .pt2 (torch.export), .ts (TorchScript) or .h "
            "(plain C, without convolutions). A file that is there is replaced.",
        ),
    ],
    checkpoint: Checkpoint = None,
    modules: Modules = None,
) -> int:
    """Write a policy of a run to a file that acts without FastLoop, the best one by default."""
    surroundings.reserve_output()
    from fast_core.tools.export import export_run

    return export_run(run, output, checkpoint, modules or ())


@program.command(
    "play",
    "fastloop play runs/ppo_cartpole",
    "fastloop play CartPole-v1",
    "fastloop play fastloop/TicTacToe-v0 environment.kwargs.opponent=perfect",
)
def play(
    what: Annotated[str, Argument("RUN|CONFIG|ENV", "What to watch, or to play yourself.")],
    overrides: Overrides = None,
    checkpoint: Checkpoint = None,
    modules: Modules = None,
) -> int:
    """Watch a run's policy in a window, or play an environment by keyboard."""
    from fast_core.tools.play import play as play_in_window

    return play_in_window(what, checkpoint, modules or (), overrides or ())


@program.command("replay", "fastloop replay runs/sac_pendulum")
def replay(
    run: Run,
    checkpoint: Annotated[
        str | None, Option(metavar="NAME", help="newest or a name in checkpoints/.")
    ] = None,
    top: Annotated[
        int, Option(least=0, help="How many rows of the highest priority to show.")
    ] = 10,
) -> int:
    """Show what the replay of a checkpoint holds; prints one JSON object."""
    surroundings.reserve_output()
    from fast_core.tools.replay_view import show_replay

    return show_replay(run, checkpoint, top)


@program.command(
    "bench",
    "fastloop bench --list",
    "fastloop bench ppo_throughput --quick",
    "fastloop bench parallel --env CartPole-v1",
)
def bench(
    names: Annotated[
        list[str] | None,
        Argument(
            "NAME",
            "Which; all by default. `parallel [CONFIG] [KEY=VALUE]...` compares one worker "
            "with several on this machine.",
        ),
    ] = None,
    quick: Annotated[bool, Option(help="Fewer and shorter rounds.")] = False,
    only_list: Annotated[
        bool, Option("--list", "Show what there is and what it compares.")
    ] = False,
    as_json: Annotated[
        bool, Option("--json", "Print a JSON object per benchmark instead.")
    ] = False,
    env: Annotated[
        str | None, Option(metavar="ID", help="Of parallel: environment to play in at random.")
    ] = None,
    workers: Annotated[
        int | None, Option(least=2, help="Of parallel: how many; rollout.shards by default.")
    ] = None,
    seconds: Annotated[
        float | None, Option(least=0.1, metavar="S", help="Of parallel: of each measurement.")
    ] = None,
) -> int:
    """Run benchmarks against other libraries, from a checkout, or one worker against several."""
    if as_json:
        surroundings.reserve_output()
    if names and names[0] == "parallel":
        from fast_core.tools import parallel

        asked = parallel.Asked(names[1:], env, workers, seconds, quick)
        return parallel.run(asked, as_json=as_json)
    if env or workers or seconds:
        raise ConfigError("--env, --workers and --seconds belong to `fastloop bench parallel`")
    from fast_core.tools.bench import run

    return run(names or [], quick=quick, only_list=only_list, as_json=as_json)


@program.command("doctor", "fastloop doctor")
def doctor() -> int:
    """Check this machine: cores, memory, limits, versions, CUDA, and what to change."""
    from fast_core.tools.doctor import diagnose, report

    findings = diagnose()
    print(report(findings))
    return 0 if all(finding.ok for finding in findings) else 1


program.command(
    "gops",
    "fastloop gops example_train/dsac/dsac_mlp_pendulum_offserial.py --max_iteration 5000",
    "fastloop gops --off-policy-degree 2 --num-samplers 2 script.py",
    rest=True,
)(gops)
program.command(
    "lightzero",
    "fastloop lightzero zoo/classic_control/cartpole/config/cartpole_muzero_config.py",
    "fastloop lightzero --num-collectors 2 config.py",
    rest=True,
)(lightzero)


@program.command(
    "demo screens",
    "fastloop demo screens",
    "fastloop demo screens --env CartPole-v1 --tiles 4 --seconds 60",
)
def screens(
    overrides: Overrides = None,
    env: Annotated[
        str | None,
        Option(
            metavar="ID",
            help="Environment, or a game of stable-retro; by default Airstriker-Genesis-v0, "
            "ALE/Breakout-v5 or CartPole-v1, whichever is installed.",
        ),
    ] = None,
    tiles: Annotated[int, Option(least=1, most=32, help="How many.")] = 8,
    port: Port = None,
    seconds: Annotated[
        float | None, Option(least=0.1, metavar="S", help="How long; until Ctrl-C by default.")
    ] = None,
    keep: Annotated[
        Path | None, Option(metavar="DIR", help="Keep the run directory, in this folder.")
    ] = None,
) -> int:
    """Play at random in many environments and show them on a page; nothing is left of it."""
    from fast_core.tools.demo import screens as show_screens

    given = [*(overrides or ()), *_page(True, port)]
    return _end(show_screens(env, tiles, given, seconds=seconds, keep=keep))


program.command("config schema", "fastloop config schema > schema.json")(schema)
program.command("config defaults", "fastloop config defaults --algorithm sac > mine.yaml")(defaults)
program.command(
    "config explain",
    "fastloop config explain algorithm.learning_rate",
    "fastloop config explain rollout",
    "fastloop config explain ppo",
)(explain)


@program.command("config validate", "fastloop config validate base.yaml seed=1")
def validate(
    config: Config,
    overrides: Overrides = None,
    show: Annotated[bool, Option(help="Print it with every default filled in.")] = False,
) -> int:
    """Check a configuration file as a launch would: its environment is made and stepped once."""
    run_config = load(config, overrides or [])
    from fast_core.launcher.run import validate as validate_run

    if status := validate_run(run_config):
        return status
    if show:
        from fast_core.config.file import dumps

        print(dumps(run_config), end="")
    else:
        name, environment = run_config.algorithm.name, run_config.environment.id
        print(f"{config} is valid: run {run_config.name!r}, {name} on {environment}.")
    return 0


@program.command(
    "completion",
    'eval "$(fastloop completion bash)"   # in ~/.bashrc; likewise zsh in ~/.zshrc',
    "fastloop completion fish | source     # in ~/.config/fish/config.fish",
)
def completion(shell: Annotated[str, Argument("SHELL", "bash, zsh or fish.", "shell")]) -> int:
    """Print what makes a shell complete commands, options, configurations and keys."""
    from fast_core.tools.completion import script

    print(script(shell), end="")
    return 0


@program.command("complete")
def complete(line: Annotated[str, Argument("LINE", "What has been typed.")]) -> int:
    """Print what the last word of a line can become; the script of `completion` asks it."""
    from fast_core.tools.completion import candidates

    for each in candidates(program, line):
        print(each)
    return 0


def _asked(
    overrides: list[str] | None, inline: bool, dashboard: bool, port: int | None
) -> list[str]:
    """Overrides, and those that options stand for."""
    return [*(overrides or ()), *(["mode=inline"] if inline else ()), *_page(dashboard, port)]


def _launch(config: RunConfig, port: int | None, resume: Path | None) -> int:
    _check_port(port, config)
    from fast_core.launcher.run import launch as launch_run

    return _end(launch_run(config, resume_from=resume))


def _check_port(port: int | None, config: RunConfig) -> None:
    if port is not None and not config.dashboard.enabled:
        raise ConfigError("--port is that of the page: add --dashboard, or leave it out.")


def _page(dashboard: bool, port: int | None) -> list[str]:
    """What the options of the page stand for."""
    at = [] if port is None else [f"dashboard.port={port}"]
    return [*(["dashboard.enabled=true"] if dashboard else ()), *at]


def _end(outcome: Outcome) -> int:
    """Show what made a run fail, last of all."""
    if outcome.report:
        from fast_core.monitor.screen import show_failure

        show_failure(outcome.report)
    return outcome.status
