"""Algorithms that learn from replay: what they share, and SAC, TD3, DDPG, DSAC, DSAC-T, DQN."""
