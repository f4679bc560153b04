"""PPO: its settings, learner, loss and policies, feed-forward and recurrent."""
