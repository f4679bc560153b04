"""Commands that launch no run: evaluate, play, look into, measure, check."""
