"""What a run is made of, fixed before its first node starts: its plan, its names, its memory."""
