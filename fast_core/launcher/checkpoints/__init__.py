"""Checkpoints: kept, committed, sized, and the last one of a run."""
