"""A few updates of each kind of LightZero's policies: a script as its users have them.

Its arguments are the configuration's module in the zoo and the entry.
"""

import importlib
import sys

CONFIG, ENTRY = sys.argv[1:3]
found = importlib.import_module(CONFIG)
main_config, create_config = found.main_config, found.create_config
create_config.env_manager.type = "base"
main_config.exp_name = "family"
COUNT = 8 if ENTRY.endswith("_segment") else 2
main_config.env.update(collector_env_num=COUNT, evaluator_env_num=1, n_evaluator_episode=1)
main_config.policy.update(
    cuda=False,
    num_simulations=2,
    update_per_collect=2,
    batch_size=8,
    n_episode=2,
    collector_env_num=COUNT,
    evaluator_env_num=1,
    manual_temperature_decay=False,
    fixed_temperature_value=0.25,
    eps={
        "eps_greedy_exploration_in_collect": True,
        "type": "linear",
        "start": 0.5,
        "end": 0.5,
        "decay": 10,
    },
)
main_config.policy.learn = {"learner": {"hook": {"log_show_after_iter": 1}}}
world = main_config.policy.model.get("world_model_cfg")
if world is not None:
    world.update(env_num=COUNT, collector_env_num=COUNT, evaluator_env_num=1)
if ENTRY.endswith("_segment"):
    main_config.policy.update(
        num_segments=8,
        buffer_reanalyze_freq=1 / 2,
        reanalyze_batch_size=4,
        reanalyze_partition=0.75,
    )

if __name__ == "__main__":
    entries = importlib.import_module("lzero.entry")
    getattr(entries, ENTRY)([main_config, create_config], seed=0, max_train_iter=4)
