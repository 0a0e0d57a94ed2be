"""`trine doctor`: facts about build and machine, compared with what Python sees."""

import json
import os
import shutil

import torch


def test_facts_are_those_of_the_machine(trine):
    facts = json.loads(trine("doctor", "--json").stdout)
    assert facts["versions"]["torch"]["value"] == torch.__version__
    assert "warning" not in facts["versions"]["torch"]
    assert facts["cpu"]["usable cores"]["value"] == len(os.sched_getaffinity(0))
    flags = open("/proc/cpuinfo").read().split("flags", 1)[1].split("\n", 1)[0].split()
    known = ("avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16")
    assert facts["cpu"]["instructions"]["value"].split() == [f for f in known if f in flags]
    assert 0 < facts["memory"]["for this process"]["value"] <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert abs(facts["disk"]["free here"]["value"] - shutil.disk_usage(".").free) < 2**30


def test_text_names_every_group_and_counts_what_stands_out(trine):
    result = trine("doctor")
    assert result.returncode == 0 and result.stderr == ""
    for group in ("versions", "cpu", "memory", "disk", "limits"):
        assert any(line.startswith(group) for line in result.stdout.splitlines())
    marks = sum(" ! " in line for line in result.stdout.splitlines())
    assert result.stdout.rstrip().endswith("Nothing stands out." if marks == 0 else f"{marks} to look at, marked with !.")
