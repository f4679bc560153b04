"""MuZero: planning with a model that is learned from replay."""
