"""Where the tests find the repository and what was built from it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD_BIN = Path(os.environ.get("TRINE_BUILD_BIN", ROOT / "build/bin"))
