"""What stands on FastLoop beside its core: GOPS, LightZero, and the games that come along."""
