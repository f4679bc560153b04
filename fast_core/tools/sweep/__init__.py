"""`fastloop sweep`: many runs side by side, of seeds and variants of one configuration."""
