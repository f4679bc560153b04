"""What another process may ask of a running run, over a Unix socket."""
