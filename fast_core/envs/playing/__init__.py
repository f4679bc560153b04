"""Exactly so many episodes, for evaluation and for who watches."""
