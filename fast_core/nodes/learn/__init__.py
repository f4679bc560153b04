"""Nodes and parts that train: one optimizer or several, from rollouts or from replay."""
