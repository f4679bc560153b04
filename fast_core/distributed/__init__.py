"""How messages travel: one contract (`channel`), two implementations."""
