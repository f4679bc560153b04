"""Nodes and parts that act: policies beside environments, in policy nodes, in evaluations."""
