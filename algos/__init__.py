"""Algorithms: a torch-free configuration beside each learner."""
