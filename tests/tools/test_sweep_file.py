"""A sweep's file says which runs there are, and is refused before any is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fast_core.errors import ConfigError
from fast_core.tools.sweep.file import read_sweep
from fast_core.tools.sweep.names import short_keys

BASE = {
    "name": "base",
    "environment": {"id": "CartPole-v1"},
    "algorithm": {"name": "ppo"},
    "stop": {"env_steps": 10_000},
}


def write(folder: Path, **keys: object) -> Path:
    path = folder / "many.yaml"
    path.write_text(yaml.safe_dump({"config": BASE, **keys}))
    return path


def test_every_combination_is_a_configuration(tmp_path: Path) -> None:
    grid = {"algorithm.gamma": [0.9, 0.99], "environment.id": ["CartPole-v1", "Acrobot-v1"]}
    sweep = read_sweep(write(tmp_path, grid=grid, seeds=3))
    assert [variant.name for variant in sweep.variants] == [
        "gamma=0.9,id=CartPole-v1",
        "gamma=0.9,id=Acrobot-v1",
        "gamma=0.99,id=CartPole-v1",
        "gamma=0.99,id=Acrobot-v1",
    ]
    assert [variant.config.environment.id for variant in sweep.variants[:2]] == [
        "CartPole-v1",
        "Acrobot-v1",
    ]
    assert sweep.seeds == (0, 1, 2)
    assert {variant.config.directory for variant in sweep.variants} == {str(sweep.folder)}


def test_nested_grid_is_the_same(tmp_path: Path) -> None:
    flat = read_sweep(write(tmp_path, grid={"algorithm.gamma": [0.9]}))
    assert read_sweep(write(tmp_path, grid={"algorithm": {"gamma": [0.9]}})).variants == (
        flat.variants
    )


def test_variants_change_keys_together_and_may_have_a_name(tmp_path: Path) -> None:
    dqn = {"name": "other", "algorithm": {"name": "dqn"}, "environment.id": "Acrobot-v1"}
    sweep = read_sweep(write(tmp_path, variants=[{"algorithm.gamma": 0.9}, dqn]))
    assert [variant.config.algorithm.name for variant in sweep.variants] == ["ppo", "dqn"]
    assert [variant.name.partition(",")[0] for variant in sweep.variants] == ["gamma=0.9", "other"]


def test_what_evaluations_elsewhere_do_not_state_follows_each_variant(tmp_path: Path) -> None:
    windy = {"evaluation": {"environments": {"windy": {"kwargs": {"wind": 1}}}}}
    base = {**BASE, **windy, "environment": {"id": "CartPole-v1", "kwargs": {"gain": 1}}}
    grid = {"environment.kwargs.gain": [2, 3]}
    sweep = read_sweep(write(tmp_path, config=base, grid=grid))
    (tmp_path / "written.yaml").write_text(sweep.text)
    for read in (sweep, read_sweep(tmp_path / "written.yaml")):
        others = [each.config.evaluation.environments["windy"] for each in read.variants]
        assert [each.kwargs for each in others] == [{"gain": 2, "wind": 1}, {"gain": 3, "wind": 1}]


def test_seeds_count_from_the_seed_of_the_configuration(tmp_path: Path) -> None:
    assert read_sweep(write(tmp_path, seeds=2), ["seed=7"]).seeds == (7, 8)
    assert read_sweep(write(tmp_path, seeds=[5, 3])).seeds == (5, 3)


def test_configuration_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    sweep = read_sweep(write(tmp_path, config="base.yaml"))
    assert [variant.name for variant in sweep.variants] == ["base"]


def test_environment_from_python_is_found_beside_the_configuration(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    others = {"evaluation": {"environments": {"same": {}, "own": {"id": "Acrobot-v1"}}}}
    environment = {"id": "Mine", "pickled": "environment.pkl"}
    base = {**BASE, **others, "environment": environment}
    (run / "config.yaml").write_text(yaml.safe_dump(base))
    sweep = read_sweep(write(tmp_path, config="run/config.yaml"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "written.yaml").write_text(sweep.text)
    for read in (sweep, read_sweep(tmp_path / "elsewhere" / "written.yaml")):
        (variant,) = read.variants
        found = variant.config.evaluation.environments
        assert variant.config.environment.pickled == str(run / "environment.pkl")
        assert found["same"].pickled == str(run / "environment.pkl")
        assert found["own"].pickled is None


def test_command_line_changes_the_sweep_and_what_its_runs_share(tmp_path: Path) -> None:
    sweep = read_sweep(write(tmp_path), ["seeds=4", "jobs=2", "stop.env_steps=50", "name=x"])
    assert (len(sweep.seeds), sweep.jobs, sweep.folder.name) == (4, 2, "x")
    assert sweep.variants[0].config.stop.env_steps == 50


@pytest.mark.parametrize("key", ["algorithm.gamma", "algorithm"])
def test_key_of_the_grid_is_replaced_whole(tmp_path: Path, key: str) -> None:
    values = [0.9, 0.99]
    grid = {key: values if "." in key else {"gamma": values}}
    path = write(tmp_path, grid=grid | {"algorithm.gae_lambda": [0.5]})
    sweep = read_sweep(path, ["grid.algorithm.gamma=[0.8]"])
    assert [each.config.algorithm.gamma for each in sweep.variants] == [0.8]
    written = yaml.safe_load(sweep.text)["grid"]
    assert written == {"algorithm.gamma": [0.8], "algorithm.gae_lambda": [0.5]}
    with pytest.raises(ConfigError, match=r"changes nothing.*grid.algorithm.gamma=\[0.7\]"):
        read_sweep(path, ["algorithm.gamma=0.7"])


def test_written_file_is_the_same_sweep(tmp_path: Path) -> None:
    path = write(tmp_path, grid={"algorithm.hidden_sizes": [[4], [8, 8]]}, seeds=2)
    sweep = read_sweep(path, ["algorithm.gamma=0.5", f"directory={tmp_path}/runs"])
    sweep.folder.mkdir(parents=True)
    (sweep.folder / "sweep.yaml").write_text(sweep.text)
    found = read_sweep(sweep.folder)
    assert (found.folder, found.variants, found.seeds) == (sweep.folder, sweep.variants, (0, 1))
    assert read_sweep(sweep.folder, ["name=x"]).folder == sweep.folder.with_name("x")
    moved = sweep.folder.rename(tmp_path / "moved")
    assert read_sweep(moved).folder == moved


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"grids": {}}, "grids is not a key.*line 9.*Did you mean grid?"),
        ({"grid": {"algorithm.gama": [1]}}, "algorithm.gama is not a key.*Did you mean"),
        ({"grid": {"algorithm.gamma": 1}}, r"must be a list of values.*\[1\]"),
        ({"grid": {"algorithm.gamma": [0.9, 2]}}, r"gamma must be a number.*got 2 .*line \d"),
        ({"grid": {"algorithm.gamma": [0.9, 0.90]}}, "gamma has a value twice"),
        (
            {"variants": [{"name": "base"}, {"name": "same", "algorithm.gamma": 0.99}]},
            "variants 'base' and 'same,gamma=0.99' are one configuration",
        ),
        ({"grid": {"seed": [1]}}, "seed can't differ within a sweep.*`seeds`"),
        ({"variants": [{"directory": "x"}]}, "directory can't differ"),
        ({"variants": [{"stop": 1}], "grid": {"stop": [2]}}, "stop is given in variants"),
        ({"name": "../x"}, "name must be usable as a folder name"),
        ({"seeds": 0}, "seeds must be an integer of at least 1"),
        ({"seeds": [1, 1]}, "seeds must be.*different"),
        ({"jobs": 0}, "jobs must be 'auto'"),
        ({"config": 3}, "config must be a path or a group of keys"),
        ({"config": "nowhere.yaml"}, "there is no configuration file.*nowhere.yaml"),
        ({"config": {**BASE, "stop": {}}}, "stop must have at least one"),
        ({"config": {**BASE, "sed": 1}}, "sed is not a key.*line.*Did you mean seed"),
    ],
)
def test_wrong_sweep_is_refused_in_a_sentence(
    tmp_path: Path, keys: dict[str, object], text: str
) -> None:
    with pytest.raises(ConfigError, match=f"(?s){text}"):
        read_sweep(write(tmp_path, **keys))


def test_configuration_of_a_run_is_told_from_a_sweep(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(BASE))
    with pytest.raises(ConfigError, match=r"configuration of one run.*`config: one.yaml` and"):
        read_sweep(tmp_path / "one.yaml", ["seeds=3"])


def test_folder_without_a_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no sweep in"):
        read_sweep(tmp_path)


def test_keys_are_as_short_as_they_can_be() -> None:
    keys = ["nodes.env.count", "nodes.policy.count", "algorithm.gamma", "stop"]
    assert short_keys(keys) == {
        "nodes.env.count": "env.count",
        "nodes.policy.count": "policy.count",
        "algorithm.gamma": "gamma",
        "stop": "stop",
    }


def test_names_of_variants_are_different_folders(tmp_path: Path) -> None:
    grid = {"environment.id": ["a/B-v1", "a:B-v1"], "algorithm.hidden_sizes": [[9] * 90, [9] * 91]}
    names = [variant.name for variant in read_sweep(write(tmp_path, grid=grid)).variants]
    assert len(set(names)) == 4
    assert not any("/" in name for name in names)
