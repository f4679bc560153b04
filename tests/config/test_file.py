import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, inspect

from fast_core import config
from fast_core.config import AlgorithmConfig, RunConfig, Section, StopConfig
from fast_core.config.file import dumps, load, loads, validate, with_pickled
from fast_core.config.schema import keys
from fast_core.config.yaml_text import inline
from fast_core.errors import ConfigError


class Momentum(Section, frozen=True, kw_only=True):
    decay: Annotated[float, Meta(gt=0, lt=1)] = 0.9


class Fake(AlgorithmConfig, frozen=True, kw_only=True):
    learning_rate: Annotated[float, Meta(gt=0)] = 3e-4
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    hidden_sizes: tuple[Annotated[int, Meta(ge=1)], ...] = (64, 64)
    normalize: bool = False
    label: str | None = None
    momentum: Momentum | None = None
    low: int = 0
    high: int = 10

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low must be at most high; got {self.low} and {self.high}")


class FakeReplay(Fake, frozen=True, kw_only=True):
    learns_from: ClassVar[str] = "replay"


def algorithm_type(name: str) -> type[AlgorithmConfig]:
    if name == "fake-replay":
        return FakeReplay
    if name != "fake":
        raise ConfigError(f"algorithm.name must be 'fake'; got {name!r}. Did you mean 'fake'?")
    return Fake


MINIMAL = """\
name: cart
environment:
  id: CartPole-v1
algorithm:
  name: fake
  learning_rate: 1e-4
stop: {env_steps: 1000}
"""


def read(text: str, *overrides: str) -> RunConfig:
    return loads(text, overrides, algorithm_type, source="x.yaml")


def fake(run: RunConfig) -> Fake:
    assert isinstance(run.algorithm, Fake)
    return run.algorithm


def refusal(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, *overrides)
    return str(caught.value)


def accepted_or_refused(text: str, overrides: list[str], parts: list[str]) -> None:
    """Refused with these parts of a message, or accepted if there are none."""
    if not parts:
        assert read(text, *overrides)
        return
    message = refusal(text, *overrides)
    assert all(part in message for part in [*parts, "command line"]), message


class FakeLater(Fake, frozen=True, kw_only=True):
    came_later: ClassVar[dict[str, object]] = {"low": -1}


def test_run_made_before_a_key_existed_keeps_what_it_did() -> None:
    text = "name: x\nenvironment: {id: A-v0}\nalgorithm: {name: later}\nstop: {updates: 1}\n"

    def low(*overrides: str, resolved: bool) -> int:
        read = loads(text, overrides, lambda _: FakeLater, source="x", resolved=resolved)
        assert isinstance(read.algorithm, FakeLater)
        return read.algorithm.low

    assert low(resolved=True) == -1
    assert low(resolved=False) == 0
    assert low("algorithm.low=3", resolved=True) == 3


def test_file_states_only_what_differs_from_the_defaults() -> None:
    run = read(MINIMAL)
    assert run == RunConfig(
        name="cart",
        environment=config.EnvironmentConfig(id="CartPole-v1"),
        algorithm=Fake(name="fake", learning_rate=1e-4),
        stop=StopConfig(env_steps=1000),
    )


def test_override_wins_over_file_and_later_over_earlier() -> None:
    run = read(MINIMAL, "algorithm.learning_rate=2e-4", "seed=1", "seed = 2", "rollout.steps=8")
    assert (fake(run).learning_rate, run.seed, run.rollout.steps) == (2e-4, 2, 8)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("stop.env_steps=1e6", 1_000_000),
        ("stop.time_s=5", 5.0),
        ("nodes.env.count=2", 2),
        ("nodes.env.count=auto", "auto"),
        ("evaluation.every_env_steps=null", None),
        ("environment.modules=[a.b, 'on']", ("a.b", "on")),
        ("environment.kwargs.mode=on", "on"),
        ("environment.kwargs.wind=1e-3", 1e-3),
        ("environment.kwargs.sizes=[1, 2.5, true, x]", [1, 2.5, True, "x"]),
        ("environment.reset_options.level=7", 7),
        ("algorithm.label=null", None),
        ("algorithm.momentum.decay=0.5", 0.5),
        ("name=2024", "2024"),
        ("name=1e-4", "1e-4"),
        ("name=true", "true"),
        ("name='a: b'", "a: b"),
        ("name=a: b", "a: b"),
        ("name=[x", "[x"),
        ("name=a=b", "a=b"),
    ],
)
def test_override_value_takes_the_type_of_its_key(override: str, value: object) -> None:
    found: object = read(MINIMAL, override)
    for name in override.partition("=")[0].split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    assert (type(found), found) == (type(value), value)


def test_override_of_a_group_replaces_it() -> None:
    run = read(MINIMAL, "stop.time_s=7", "stop={updates: 5}")
    assert run.stop == StopConfig(updates=5)


def test_value_of_a_replaced_group_is_forgotten() -> None:
    overrides = ["algorithm.label=old", "algorithm={name: fake, label: 5}"]
    assert "algorithm.label must be text, or null; got 5" in refusal(MINIMAL, *overrides)


def test_group_with_nothing_below_it_takes_its_defaults() -> None:
    assert read(MINIMAL + "rollout:\n").rollout == config.RolloutConfig()


def test_optional_group_may_be_null() -> None:
    assert fake(read(MINIMAL, "algorithm.momentum=null")).momentum is None


def test_error_says_key_value_allowed_place_and_remedy() -> None:
    assert refusal(MINIMAL.replace("1e-4", "fast")) == (
        "algorithm.learning_rate must be a number above 0; got 'fast' (x.yaml, line 6). "
        "Change it, or leave it out for the default, 0.0003."
    )


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("algorithm.learing_rate=1", ["not a key", "algorithm.learning_rate?"]),
        ("rollot.steps=3", ["rollot is not a key", "Did you mean rollout?"]),
        ("learning_rate=1", ["not a key", "Did you mean algorithm.learning_rate?"]),
        ("nodes.optimizer.thread=1", ["nodes.optimizer.thread ", "nodes.optimizer.threads?"]),
        ("rollout.zzzz=1", ["rollout has: shards, envs_per_shard, steps."]),
        ("algorithm.momentum.deca=1", ["Did you mean algorithm.momentum.decay?"]),
        ("stop={env_steps: 0}", ["stop.env_steps must be", "got 0"]),
        ("seed=-1", ["an integer of at least 0", "got -1"]),
        ("seed=1.5", ["an integer", "got 1.5"]),
        ("seed=true", ["an integer", "got True"]),
        ("seed.x=1", ["seed must be an integer", "got {'x': 1}"]),
        ("scheduler.off_policy_degree=1001", ["an integer from 0 to 1000, or -1", "got 1001"]),
        ("scheduler.off_policy_degree=-2", ["an integer from 0 to 1000, or -1", "got -2"]),
        ("scheduler.off_policy_degree=2.5", ["or 'legacy-auto'", "got 2.5"]),
        ("scheduler.off_policy_degree=true", ["or 'legacy-auto'", "got True"]),
        ("scheduler.off_policy_degree=autoo", ["got 'autoo'", "Did you mean 'auto'?"]),
        ("mode=inlin", ["'inline' or 'process'", "Did you mean 'inline'?"]),
        ("metrics.tensorboard=yes", ["true or false", "Write true."]),
        ("nodes.env.count=0", ["an integer of at least 1, or 'auto'"]),
        ("algorithm.learning_rate=.inf", ["a number above 0", "got inf"]),
        ("algorithm.learning_rate=.nan", ["a number above 0", "got nan"]),
        ("algorithm.hidden_sizes=[64, 0]", ["each item an integer of at least 1", "[64, 0]"]),
        ("algorithm.normalize=1", ["algorithm.normalize must be true or false", "got 1"]),
        ("algorithm.momentum=3", ["must be a group of keys", "got 3"]),
        ("algorithm.low=11", ["low must be at most high; got 11 and 10"]),
        ("environment.kwargs=[1]", ["environment.kwargs must be a group of keys with any value"]),
    ],
)
def test_wrong_override_is_refused(override: str, parts: list[str]) -> None:
    message = refusal(MINIMAL, override)
    for part in [*parts, "command line"]:
        assert part in message


def test_override_alone_is_blamed_on_the_command_line() -> None:
    assert "x.yaml" not in refusal(MINIMAL, "rollot.steps=3")


@pytest.mark.parametrize("override", ["seed", "seed=", "=1", "a..b=1", ".a=1", "a.=1"])
def test_malformed_override_is_refused(override: str) -> None:
    assert f"got {override!r} (command line)" in refusal(MINIMAL, override)


def test_override_below_a_value_of_the_file_is_refused() -> None:
    assert "name is 'cart', not a group of keys (x.yaml, line 1)" in refusal(MINIMAL, "name.x=1")


def test_everything_wrong_is_listed_at_once() -> None:
    message = refusal(MINIMAL + "sed: 1\n", "rollout.steps=0", "algorithm.normalize=maybe")
    assert message.startswith("the configuration has 3 errors:")
    for part in ("sed is not a key", "x.yaml, line 8", "rollout.steps", "algorithm.normalize"):
        assert part in message


def test_file_number_where_text_is_needed_asks_for_quotes() -> None:
    message = refusal(MINIMAL.replace("cart", "2024"))
    assert "name must be text; got 2024 (x.yaml, line 1). Put it in quotes" in message


def test_unknown_algorithm_is_refused_with_its_place() -> None:
    assert refusal(MINIMAL.replace("fake", "fak")) == (
        "algorithm.name must be 'fake'; got 'fak'. Did you mean 'fake'? (x.yaml, line 5)"
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "environment:\nalgorithm:\n"])
def test_required_keys_are_named(text: str) -> None:
    message = refusal(text)
    for key in ("name", "environment.id", "algorithm.name"):
        assert f"\n  - {key} is required (x.yaml" in message


@pytest.mark.parametrize("value", ["4", "[a]", "text"])
def test_value_where_a_group_belongs_is_refused(value: str) -> None:
    said = refusal(f"environment: {value}")
    assert "environment must be a group of keys" in said
    assert ("Give its keys: {id: text}" in said) == (value == "text")


def test_missing_file_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "cartpole.yaml").write_text(MINIMAL)
    with pytest.raises(ConfigError, match=r"no configuration file .*Did you mean .*cartpole\.yaml"):
        load(tmp_path / "cartpol.yaml", [], algorithm_type)


def test_folder_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no configuration file"):
        load(tmp_path, [], algorithm_type)
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="must be UTF-8"):
        load(tmp_path / "x.yaml", [], algorithm_type)


def test_file_of_a_sweep_is_refused_with_what_runs_it(tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text("config: ppo_cartpole\nseeds: 3\n")
    with pytest.raises(ConfigError, match=f"`fastloop sweep {path}`"):
        load(path, [], algorithm_type)


def test_errors_name_the_file_that_was_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(MINIMAL + "seed: a\n")
    with pytest.raises(ConfigError) as caught:
        load(path, [], algorithm_type)
    assert f"({path}, line 8)" in str(caught.value)
    assert load(path, ["seed=3"], algorithm_type).seed == 3


NODE, NUMPY, DEVICE = (
    "policy.placement=node",
    "policy.backend=numpy",
    "nodes.policy.device=cuda:1",
)
GROUPS, ENVS = "policy.groups=1000000", "rollout.envs_per_shard=999999"


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (["stop={}"], ["stop must have at least one of", "stop: {env_steps: 1000000}"]),
        (["stop.env_steps=null"], ["stop must have at least one of"]),
        (["stop.score=475"], []),
        (["stop.score=475", "evaluation.every_env_steps=null"], ["stop.score needs evaluations"]),
        # Refused below where there is no end in env steps.
        (["algorithm.learning_rate_schedule=linear"], []),
        (
            ["rollout={shards: 1000000, envs_per_shard: 3}"],
            ["must be at most 16384", "with rollout.envs_per_shard 184 it may be 16305"],
        ),
        (["nodes.env.count=3"], ["must be at most rollout.shards, which is 2", "got 3"]),
        (["nodes.policy.count=3"], []),
        (["nodes.policy.count=3", NODE], ["must be at most rollout.shards, which is 2"]),
        ([GROUPS, ENVS], []),
        ([GROUPS, NODE], []),
        ([GROUPS, ENVS, NODE], ["policy.groups must be at most 16384 with rollout.shards 2"]),
        ([NUMPY, "policy.precision=bf16"], ["must be torch or auto with policy.precision: bf16"]),
        ([NUMPY, DEVICE], []),  # without policy nodes nothing acts on their device
        ([NUMPY, DEVICE, NODE], ["must be torch or auto with nodes.policy.device: cuda:1"]),
        (
            ["supervision.restarts={backoff_s: 5, max_backoff_s: 2}"],
            ["must be at least supervision.restarts.backoff_s, which is 5"],
        ),
        (["name=.."], ["usable as a folder name", "got '..'"]),
        (["name=.hidden"], ["no leading dot"]),
        (["name=a/b"], ["no slash"]),
        (["name=a\\b"], ["backslash"]),
        (['name="a\\nb"'], ["no control characters"]),
        (["name=''"], ["not empty"]),
        ([f"name={'x' * 201}"], ["at most 200 characters"]),
        ([f"name={'漢' * 100}"], ["255 bytes", "got 100 and 300"]),
    ],
)
def test_rules_between_keys(overrides: list[str], parts: list[str]) -> None:
    accepted_or_refused(MINIMAL, overrides, parts)


def test_restart_after_an_error_needs_a_budget() -> None:
    restart = "supervision.restarts.on_error=restart"
    assert "all budgets are 0; got 'restart'" in refusal(MINIMAL, restart)
    for budget in ("env", "policy", "evaluator", "optimizer"):
        assert read(MINIMAL, restart, f"supervision.restarts.{budget}=5")
    assert read(MINIMAL, restart, "supervision.env_restarts=5")


def test_older_name_of_a_budget_is_accepted_but_not_beside_another_value() -> None:
    older, newer = "supervision.env_restarts=2", "supervision.restarts.env=2"
    for said in ([older], [newer], [older, newer], [newer, "supervision.env_restarts=0"]):
        assert read(MINIMAL, *said).supervision.env_deaths == 2
    message = refusal(MINIMAL, older, "supervision.restarts.env=3")
    assert "is the older name of supervision.restarts.env, which is 3; got 2" in message
    assert "Set it to 0" in message


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ([], False),
        (["evaluation.enable_async_eval=true"], False),
        (["evaluation.enable_async_eval=false"], True),
        (["evaluation.enable_async_eval=false", "evaluation.mode=sync"], True),
        (["evaluation.mode=sync"], True),
    ],
)
def test_older_name_of_the_mode_of_evaluations_is_accepted(given: list[str], waits: bool) -> None:
    assert read(MINIMAL, *given).evaluation.waits == waits


def test_older_name_of_the_mode_of_evaluations_must_not_say_otherwise() -> None:
    message = refusal(MINIMAL, "evaluation.enable_async_eval=true", "evaluation.mode=sync")
    assert "is the older name of evaluation.mode, which is 'sync'; got true" in message
    assert read(MINIMAL, "evaluation.mode=async", "evaluation.enable_async_eval=true")


def test_attributes_are_refused_where_nothing_has_them() -> None:
    given = "environment.attributes={gravity: 9.8}"
    assert read(MINIMAL, given).environment.attributes == {"gravity": 9.8}
    message = refusal(MINIMAL, "environment.attributes={a-b: 1}")
    assert "environment.attributes must have names of attributes; got 'a-b'" in message
    message = refusal(MINIMAL, given, "environment.atari={}")
    assert "can't be combined with environment.atari" in message


@pytest.mark.parametrize(
    ("backend", "remedy"),
    [
        ("envpol", "Did you mean 'envpool'?"),
        ("own.Walk", "Did you mean 'own:Walk'?"),
        ("isaac", "Leave it out for gymnasium."),
    ],
)
def test_a_backend_is_one_of_three_or_a_class(backend: str, remedy: str) -> None:
    assert read(MINIMAL, "environment.backend=own:Walk").environment.backend == "own:Walk"
    message = refusal(MINIMAL, f"environment.backend={backend}")
    assert "must be gymnasium, gymnasium_vector, envpool, or a class of yours as" in message
    assert remedy in message


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("nodes.optimizer.device", "cuda:1", "cpu"),
        ("supervision.env_restarts", "2", "0"),
        ("nodes.extra", "[{node: 'a:B'}]", "[]"),
        ("nodes.env.balance", "true", "false"),
        ("nodes.policy.balance", "true", "false"),
    ],
)
def test_what_no_record_holds_yet_is_refused_with_it(key: str, value: str, instead: str) -> None:
    assert read(MINIMAL, "diagnostics.schedule=true")
    message = refusal(MINIMAL, "diagnostics.schedule=true", f"{key}={value}")
    assert f"diagnostics.schedule does not record runs with {key} " in message
    assert f"Set it to false, or {key} to {instead}." in message
    assert read(MINIMAL, "diagnostics.schedule=true", f"{key}={instead}")


def test_linear_schedule_needs_a_number_of_env_steps() -> None:
    linear = "algorithm.learning_rate_schedule=linear"
    message = refusal(MINIMAL, "stop={updates: 5}", linear)
    assert "algorithm.learning_rate_schedule can be 'linear' only when horizon_env" in message
    assert read(MINIMAL, "stop={updates: 5}", linear, "horizon_env_steps=100").horizon == 100


def test_run_beyond_the_end_of_its_schedule_is_refused() -> None:
    linear = "algorithm.learning_rate_schedule=linear"
    limits = ("stop.env_steps=200", "horizon_env_steps=100")
    message = refusal(MINIMAL, *limits, linear)
    assert "stop.env_steps can't be beyond horizon_env_steps, which is 100" in message
    assert read(MINIMAL, *limits).progress(150) == 1.0  # nothing falls to 0
    assert read(MINIMAL, *limits, linear, "horizon_env_steps=200").progress(150) == 0.75
    assert read(MINIMAL, "stop={updates: 5}").progress(150) == 0.0


REPLAY = MINIMAL.replace("name: fake", "name: fake-replay").replace("1000}", "100000}")
TWO = "nodes.optimizer.count=2"


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        ([TWO], []),
        (["nodes.optimizer={count: 2, update: async, max_gradient_staleness: 0}"], []),
        (["nodes.optimizer={count: 2, collective: gloo}"], []),
        (["nodes.optimizer={count: 2, collective: nccl, device: 'cuda:0'}"], []),
        (["nodes.optimizer={count: 2, collective: shared}", "mode=inline"], []),
        (
            ["nodes.optimizer={count: 2, update: async, max_gradient_staleness: -1}"],
            ["max_gradient_staleness must be null or at least 0; got -1"],
        ),
        (
            ["nodes.optimizer={count: 2, max_gradient_staleness: 3}"],
            ["can be set only with nodes.optimizer.update async", "got 3"],
        ),
        (
            ["nodes.optimizer={count: 2, collective: nccl}"],
            ["collective can be nccl only with a CUDA device", "is 'cpu'; got 'nccl'"],
        ),
        (
            ["nodes.optimizer={count: 2, collective: gloo}", "mode=inline"],
            ["collective must be auto or shared with mode inline", "got 'gloo'"],
        ),
        (
            ["nodes.optimizer={count: 2, collective: gloo, update: async}"],
            ["collective must be auto or shared with nodes.optimizer.update async"],
        ),
        (["replay.capacity=1000", "replay.learning_starts=1000"], []),
        (
            ["replay.capacity=999", "replay.learning_starts=1000"],
            ["replay.capacity must be at least replay.learning_starts, which is 1000", "got 999"],
        ),
        (["stop.env_steps=1001", "replay.learning_starts=1000"], []),
        (
            ["stop.env_steps=1000", "replay.learning_starts=1000"],
            ["stop.env_steps must leave room for an update", "got 1000"],
        ),
        (["stop.env_steps=1010", "scheduler.replay_ratio=0.1"], []),
        (
            ["stop.env_steps=1009", "scheduler.replay_ratio=0.1"],
            ["stop.env_steps must leave room", "replay_ratio 0.1", "got 1009"],
        ),
        (["stop={updates: 5}", "replay.learning_starts=5000"], []),
    ],
)
def test_rules_of_learning_from_replay(overrides: list[str], parts: list[str]) -> None:
    accepted_or_refused(REPLAY, overrides, parts)


@pytest.mark.parametrize(
    ("written", "exact"), [("1/3", (1, 3)), ("0.1", (1, 10)), ("2", (2, 1)), ("7/2", (7, 2))]
)
def test_replay_ratio_is_a_number_or_a_fraction_kept_exactly(
    written: str, exact: tuple[int, int]
) -> None:
    text = REPLAY + f"scheduler: {{replay_ratio: {written}}}"
    run = read(text)
    assert run.scheduler.ratio.as_integer_ratio() == exact
    assert read(dumps(run)).scheduler == run.scheduler
    assert read(REPLAY, f"scheduler.replay_ratio={written}").scheduler == run.scheduler


@pytest.mark.parametrize("written", ["1/0", "0/3", "-1/3", "1/3/2", "a third", "2001/2"])
def test_ratio_that_is_none_is_refused_with_what_may_be_written(written: str) -> None:
    message = refusal(REPLAY, f"scheduler.replay_ratio={written}")
    assert "scheduler.replay_ratio must be" in message
    assert f"got {written!r}" in message


@pytest.mark.parametrize("given", [*config.ReplayConfig.__struct_fields__, "replay_ratio"])
def test_settings_of_the_replay_are_refused_where_there_is_none(given: str) -> None:
    values = {"capacity": 9, "prioritized": True, "slots": 3, "learning_starts": 7}
    group = "scheduler" if given == "replay_ratio" else "replay"
    key, value = f"{group}.{given}", values.get(given, 0.5)
    message = refusal(MINIMAL, f"{key}={inline(value)}")
    assert f"{key} can be set only for algorithms that learn from replay" in message
    assert f"'fake' learns from rollouts; got {value!r}" in message
    assert "1 error" in message or "errors" not in message


def test_one_optimizer_may_keep_what_was_set_for_several() -> None:
    several = "nodes.optimizer={update: async, max_gradient_staleness: 1, collective: nccl}"
    assert read(MINIMAL, several).nodes.optimizer.count == 1
    message = refusal(MINIMAL, TWO)
    assert "nodes.optimizer.count must be 1: 'fake' learns from rollouts" in message


@pytest.mark.parametrize("name", ["a", "x" * 200, "кот", "漢字 run", "a.b", "-x"])
def test_names_of_any_script_are_accepted(name: str) -> None:
    assert read(MINIMAL, f"name={inline(name)}").name == name


def test_validate_lists_every_broken_rule() -> None:
    run = msgspec.structs.replace(read(MINIMAL), name="", stop=StopConfig())
    with pytest.raises(ConfigError, match=r"has 2 errors:(?s:.*)name must(?s:.*)stop must"):
        validate(run)
    validate(read(MINIMAL))


# --- every key, alone --------------------------------------------------------------------------


def samples(kind: inspect.Type) -> list[Any]:
    """Some values that a type takes, other than most defaults."""
    match kind:
        case inspect.Metadata():
            return samples(kind.type)
        case inspect.UnionType():
            return [value for member in kind.types for value in samples(member)]
        case inspect.LiteralType():
            return list(kind.values)
        case inspect.IntType():
            return [(kind.ge or 0) + 3]
        case inspect.FloatType():
            low = kind.gt if kind.ge is None else kind.ge
            high = kind.lt if kind.le is None else kind.le
            return [(low or 0.0) + 1.3e-7 if high is None else ((low or 0.0) + high) / 3]
        case inspect.BoolType():
            return [True, False]
        case inspect.StrType(pattern=str(pattern)):
            return [text for text in ("1/3", "a:B", "Pendulum-v1") if re.search(pattern, text)]
        case inspect.StrType():
            return ["on", "1e5", "漢: # 'x'"]
        case inspect.NoneType():
            return [None]
        case inspect.VarTupleType():
            return [(value, value) for value in samples(kind.item_type)] + [()]
        case inspect.DictType():
            return [{"a b": value} for value in samples(kind.value_type)]
        case inspect.AnyType():
            return [[1, {"off": 2.5, 3: None}]]
        case inspect.StructType():
            needed = {f.name: samples(f.type)[0] for f in kind.fields if f.required}
            return [kind.cls(**needed)]
    raise AssertionError(kind)


def leaves(group: Section, *above: str) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Each key that is no group, and values for it."""
    for name, key in keys(type(group)).items():
        value = getattr(group, key.attribute)
        if isinstance(value, Section):
            yield from leaves(value, *above, name)
        else:
            yield (*above, name), samples(inspect.type_info(key.annotation))


def put(group: Section, path: Sequence[str], value: object) -> Any:
    name, *below = path
    attribute = keys(type(group))[name].attribute
    made = put(getattr(group, attribute), below, value) if below else value
    return msgspec.structs.replace(group, **{attribute: made})


@pytest.mark.parametrize("turn", range(6))
@pytest.mark.parametrize("text", [MINIMAL, REPLAY], ids=["rollouts", "replay"])
def test_every_key_comes_back_from_a_file_and_from_the_command_line(text: str, turn: int) -> None:
    """All at once, but for those that a rule forbids beside the others."""
    run, overrides, left = read(text), [], []
    for path, values in leaves(run):
        value = values[turn % len(values)]
        made = put(run, path, value)
        try:
            validate(made)
        except ConfigError:
            left.append(".".join(path))
            continue
        if path != ("algorithm", "name"):
            run = made
            plain = msgspec.to_builtins(value, enc_hook=str)
            overrides.append(f"{'.'.join(path)}={inline(plain)}")
    assert len(left) < 30, left
    assert read(dumps(run)) == run
    assert read(text, *overrides) == run


tree_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*keys(RunConfig), "x"]), tree_values), st.data())
def test_any_tree_is_accepted_or_refused_as_a_configuration(
    tree: dict[str, object], data: st.DataObject
) -> None:
    group = data.draw(st.sampled_from(list(keys(RunConfig))))
    names = st.sampled_from([*keys(Fake), *keys(config.StopConfig), *keys(config.NodesConfig)])
    tree[group] = data.draw(st.dictionaries(names, tree_values))
    try:
        run = read(inline(tree))
    except ConfigError as error:
        assert "x.yaml" in str(error)
    else:
        assert read(dumps(run)) == run


OTHERS = """\
name: cart
environment:
  id: CartPole-v1
  kwargs: {gain: 1, sutton_barto_reward: true}
  frame_skip: 2
evaluation:
  environments:
    test: {kwargs: {gain: 2}}
    windy: {id: "my:Windy-v0", frame_skip: 1}
    same:
algorithm: {name: fake}
stop: {env_steps: 1000}
"""


def test_evaluated_environments_follow_a_python_object_but_not_to_another_id() -> None:
    run = read(OTHERS, "environment.pickled=environment.pkl")
    others = run.evaluation.environments
    assert others["test"].pickled == "environment.pkl" and others["windy"].pickled is None
    moved = with_pickled(run, lambda name: f"/somewhere/{name}")
    assert moved.evaluation.environments["test"].pickled == "/somewhere/environment.pkl"
    assert moved.evaluation.environments["windy"].pickled is None
    assert read(dumps(moved)) == run


def test_evaluated_environments_state_what_differs_from_that_of_training() -> None:
    run = read(OTHERS, "evaluation.environments.test.kwargs.length=3")
    others = run.evaluation.environments
    assert others["test"] == msgspec.structs.replace(
        run.environment, kwargs={"gain": 2, "sutton_barto_reward": True, "length": 3}
    )
    assert others["windy"] == config.EnvironmentConfig(id="my:Windy-v0")
    assert others["same"] == run.environment
    assert read(dumps(run)) == run


def test_evaluated_environments_of_a_written_configuration_follow_as_before() -> None:
    changes = ("environment.kwargs.sutton_barto_reward=false", "environment.frame_skip=3")
    run = read(OTHERS)
    for written in (read(dumps(run), *changes), read(dumps(read(dumps(run))), *changes)):
        assert written == read(OTHERS, *changes)
    others = written.evaluation.environments
    assert others["test"].kwargs == {"gain": 2, "sutton_barto_reward": False}
    assert (others["same"].frame_skip, others["windy"].frame_skip) == (3, 1)
    # what states the id of training has no kwargs but its own, and 1 is another value than 1.0
    owns = ("{id: CartPole-v1}", "{kwargs: {gain: 1.0}}", "{attributes: {gravity: 9.8}}")
    for own in (*owns, "{reset_options: {}, pickled: null}"):
        given = ("environment.reset_options.low=1", "environment.pickled=environment.pkl")
        run = read(OTHERS, *given, f"evaluation.environments.test={own}")
        again = read(dumps(run))
        assert repr(again) == repr(run)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["evaluation.environments=[test]"], ["must be a group of names", "['test']"]),
        (["evaluation.environments.test.kwarg=1"], ["evaluation.environments.test.kwargs?"]),
        (["evaluation.environments.test=5"], ["evaluation.environments.test must be a group"]),
        (["evaluation.environments.test.frame_skip=0"], ["test.frame_skip must be an integer"]),
        (["evaluation.environments.a/b.frame_skip=2"], ["names of 1 to 64 letters", "'a/b'"]),
        (["evaluation.environments.test.step_timeout_s=1"], ["one limit for all steps"]),
        (["evaluation.score_on=tset"], ["('test', 'windy', 'same')", "'tset'"]),
        (["environment.frame_skip=0"], ["environment.frame_skip must be an integer"]),
    ],
)
def test_evaluated_environment_that_is_wrong_is_told(
    overrides: list[str], words: list[str]
) -> None:
    message = refusal(OTHERS, *overrides)
    assert "errors:" not in message
    for word in words:
        assert word in message


EXTRA = (
    MINIMAL
    + """\
nodes:
  extra:
    - node: a:B
      settings: {cell: 0.1}
    - node: a:C
      nam: log
"""
)


def test_mistake_in_an_item_of_a_list_names_the_item_the_key_and_the_line() -> None:
    message = refusal(EXTRA)
    assert "nodes.extra[1].nam is not a key of the configuration; got 'log'" in message
    assert "x.yaml, line 13" in message and "Did you mean nodes.extra[1].name?" in message


def test_items_of_a_list_are_groups_of_keys() -> None:
    extra = read(EXTRA.replace("nam:", "name:")).nodes.extra
    assert [(node.node, node.node_name, node.settings) for node in extra] == [
        ("a:B", "b", {"cell": 0.1}),
        ("a:C", "log", {}),
    ]
    lacking = refusal(MINIMAL, "nodes.extra=[{name: log}]")
    assert "nodes.extra[0].node is required (command line)" in lacking
    text = refusal(MINIMAL, "nodes.extra=[3]")
    assert "nodes.extra[0] must be a group of keys; got 3 (command line)" in text
    assert "nodes.extra must be a list of groups of keys" in refusal(MINIMAL, "nodes.extra={}")
    setting = refusal(MINIMAL, "nodes.extra=[{node: 'a:B', settings: [1]}]")
    assert "nodes.extra[0].settings must be a group of keys" in setting


def test_text_in_a_list_of_groups_stands_for_the_one_with_that_name() -> None:
    run = read(
        MINIMAL,
        "environment.wrappers=[a:B, {name: c:D, kwargs: {limits: {low: [1, null]}}}]",
        "nodes.extra=[a:B]",
    )
    assert run.environment.wrappers == (
        config.WrapperConfig(name="a:B"),
        config.WrapperConfig(name="c:D", kwargs={"limits": {"low": [1, None]}}),
    )
    assert run.nodes.extra == (config.ExtraNodeConfig(node="a:B"),)
    assert read(dumps(run)) == run
    message = refusal(MINIMAL, "environment.wrappers=[{name: a:B, limit: 3}]")
    assert "environment.wrappers[0].limit is not a key" in message
    assert "a list of groups of keys; got 'a:B'" in refusal(MINIMAL, "environment.wrappers=a:B")
