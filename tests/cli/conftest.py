"""Runs build/bin/trine as a user does: the fixture `trine` takes words and gives exit code, stdout and stderr."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRINE = Path(os.environ.get("TRINE_BINARY", ROOT / "build/bin/trine"))


@pytest.fixture(scope="session")
def trine():
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "TRINE_LOG")}

    def run(*words, cwd=ROOT, **variables):
        return subprocess.run([TRINE, *map(str, words)], cwd=cwd, env=environment | variables, capture_output=True, text=True)

    return run
