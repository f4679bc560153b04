"""Who computes where, on how many threads: by arithmetic or by measuring."""
