"""APPO and IMPALA: PPO's networks and steps with V-trace, for data that are off-policy."""
