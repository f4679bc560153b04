"""FastLoop: trains reinforcement-learning policies with several processes on one machine."""

__version__ = "0.1.0"
