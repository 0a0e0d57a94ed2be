"""Loads libtrine_ops.so once; `ops` are the registered operators."""

import os
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("TRINE_OPS_LIBRARY", ROOT / "build/lib/libtrine_ops.so"))

torch.ops.load_library(LIBRARY)
ops = torch.ops.trine


def registered_names():
    """The names of all operators of the namespace, without it."""
    return sorted({name.removeprefix("trine::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("trine::")})
