"""What a run shows and writes: progress, metrics, journal, trace, report.

Nothing here decides anything, and nothing here may stop training: a full disk or a closed
terminal is reported once, counted, and training goes on. No module imports torch.
"""
