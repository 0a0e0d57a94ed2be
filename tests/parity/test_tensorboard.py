"""TensorBoard's own reader on the event files that Trine writes."""

import json
import math
import subprocess
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

WRITER = Path(__file__).parents[2] / "build" / "bin" / "write_metrics"


def write(folder, resumed_step, last_step):
    subprocess.run([WRITER, folder, str(resumed_step), str(last_step)], check=True, capture_output=True)


def scalars(folder):
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


def test_every_tag_is_read_back_with_its_values(tmp_path):
    write(tmp_path, 0, 10)
    read = scalars(tmp_path)
    steps = range(1, 11)
    assert read["loss_metrics/global_avg_loss"] == {n: pytest.approx(8 / n, rel=1e-6) for n in steps}
    assert read["grad_norm"] == {n: n / 4 for n in steps}
    assert read["lr"] == {n: pytest.approx(n * 1e-4, rel=1e-6) for n in steps}
    window = {
        "throughput(tps)": 2000,
        "tflops": 4,
        "mfu(%)": 40,
        "time_metrics/end_to_end(s)": 0.5,
        "time_metrics/data_loading(s)": 0.125,
        "time_metrics/data_loading(%)": 25,
        "memory/peak(GiB)": 1,
        "memory/peak(%)": 25,
    }
    for tag, value in window.items():
        assert read[tag] == {n: value for n in (1, 5, 10)}, tag
    assert read["validation_metrics/loss"] == {4: 2, 8: 2}
    assert read["validation_metrics/perplexity"] == {n: pytest.approx(math.exp(2), rel=1e-6) for n in (4, 8)}
    assert read["validation_metrics/throughput(tps)"] == {4: 50, 8: 50}
    assert len(read) == 3 + len(window) + 3


def test_after_resuming_the_steps_past_the_checkpoint_are_forgotten(tmp_path):
    write(tmp_path, 0, 9)
    write(tmp_path, 6, 7)
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2
    assert sorted(scalars(tmp_path)["grad_norm"]) == [1, 2, 3, 4, 5, 6, 7]
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "train"] == [1, 2, 3, 4, 5, 6, 7]


def test_frames_carry_checksums_that_the_reader_accepts_and_damage_breaks(tmp_path):
    write(tmp_path, 0, 3)
    (file,) = (tmp_path / "tensorboard").iterdir()
    whole = [event.step for event in EventFileLoader(str(file)).Load()]
    damaged = bytearray(file.read_bytes())
    damaged[-10] ^= 1
    file.write_bytes(damaged)
    # The reader stops at a frame whose checksum is wrong.
    assert [event.step for event in EventFileLoader(str(file)).Load()] == whole[:-1]
