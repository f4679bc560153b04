"""CartPole MuZero of LightZero's zoo, shortened: a script as its users have them."""

from zoo.classic_control.cartpole.config.cartpole_muzero_config import create_config, main_config

create_config.env_manager.type = "base"
main_config.exp_name = "shortened"
main_config.policy.update(
    cuda=False, num_simulations=2, update_per_collect=4, batch_size=16, eval_freq=8
)

if __name__ == "__main__":
    from lzero.entry import train_muzero

    train_muzero([main_config, create_config], seed=0, max_env_step=400)
