"""CartPole MuZero of LightZero's zoo, shortened: a script as its users have them.

With the argument ``segments`` by LightZero's other entry, with reanalysis and with environments in
processes of their own.
"""

import sys

from zoo.classic_control.cartpole.config.cartpole_muzero_config import create_config, main_config

SEGMENTS = "segments" in sys.argv[1:]
create_config.env_manager.type = "subprocess" if SEGMENTS else "base"
main_config.exp_name = "shortened"
main_config.policy.update(
    cuda=False, num_simulations=2, update_per_collect=4, batch_size=16, eval_freq=8
)
if SEGMENTS:
    main_config.policy.update(
        num_segments=8,
        buffer_reanalyze_freq=1 / 2,
        reanalyze_batch_size=4,
        reanalyze_partition=0.75,
    )

if __name__ == "__main__":
    from lzero.entry import train_muzero, train_muzero_segment
    from lzero.mcts import MuZeroGameBuffer

    class Told(MuZeroGameBuffer):
        """Says when it is reanalyzed."""

        def reanalyze_buffer(self, *given):
            print("reanalyzes")
            return super().reanalyze_buffer(*given)

    sys.modules["lzero.mcts"].MuZeroGameBuffer = Told
    entry = train_muzero_segment if SEGMENTS else train_muzero
    entry([main_config, create_config], seed=0, max_env_step=400)
