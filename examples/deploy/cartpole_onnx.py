"""Drives CartPole with an exported policy; needs gymnasium and onnxruntime, not FastLoop.

fastloop launch configs/ppo_cartpole.yaml
fastloop export runs/ppo_cartpole -o cartpole.onnx
python examples/deploy/cartpole_onnx.py cartpole.onnx
"""

import json
import sys

import gymnasium
import onnxruntime


def main(path: str, episodes: int = 5) -> float:
    """Play some episodes, print each return, and return their mean."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    about = json.loads(session.get_modelmeta().custom_metadata_map["fastloop"])
    env = gymnasium.make(about["environment"])
    returns = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        total, over = 0.0, False
        while not over:
            # A batch of one row: exactly what the environment gives, nothing to prepare.
            (action,) = session.run(["action"], {"observation": obs[None]})
            obs, reward, terminated, truncated, _ = env.step(action[0])
            total += float(reward)
            over = terminated or truncated
        print(f"episode {episode}: return {total:g}")
        returns.append(total)
    env.close()
    return sum(returns) / episodes


if __name__ == "__main__":
    print(f"mean return {main(*sys.argv[1:2]):g}")
