"""`make install`: the installed program runs by itself, without the build tree's paths and without LD_LIBRARY_PATH."""

import shutil
import subprocess

from conftest import ROOT


def test_installed_program_finds_its_libraries_beside_it(tmp_path):
    prefix = tmp_path / "prefix"
    subprocess.run(["cmake", "--install", ROOT / "build", "--prefix", prefix], check=True, capture_output=True)
    doctor = subprocess.run([prefix / "bin/trine", "doctor", "--json"], env={}, cwd=tmp_path, capture_output=True, text=True)
    shutil.rmtree(prefix)  # libtorch is a few hundred megabytes
    assert doctor.returncode == 0, doctor.stderr
    if "+cu" not in doctor.stdout:  # a CUDA build refers to the wheel instead
        assert f"{prefix}/bin/../lib/trine" in doctor.stdout
