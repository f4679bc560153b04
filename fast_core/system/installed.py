"""FastLoop itself, as it is installed: its version, and where it lies."""

from __future__ import annotations

import os

VERSION = "0.1.0"
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # of the package fast_core
