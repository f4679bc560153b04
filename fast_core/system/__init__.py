"""The machine under a run: cores, memory, threads, files, modules by name."""
