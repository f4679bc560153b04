"""FastLoop from Python: what `fast_core` itself offers, see docs/python.md."""
