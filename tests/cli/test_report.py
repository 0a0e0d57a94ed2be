"""`trine report` on made-up runs."""

import json
import subprocess

import pytest
from conftest import TRINE


def make_run(folder, last_step):
    subprocess.run([TRINE.with_name("write_metrics"), folder, "0", str(last_step)], check=True, capture_output=True)
    return str(folder)


@pytest.fixture
def report(trine):
    return lambda *words: trine("report", *words)


def test_one_run_is_summed_up_and_gets_its_page(report, tmp_path):
    run = make_run(tmp_path / "run", 8)
    result = report(run)
    assert result.returncode == 0, result.stderr
    assert "last loss          1.0000 (step 8)" in result.stdout
    assert "tokens/s           2,000" in result.stdout
    assert "<canvas id=\"loss\">" in (tmp_path / "run" / "report.html").read_text()


def test_several_runs_stand_beside_each_other_and_json_has_the_facts(report, tmp_path):
    runs = [make_run(tmp_path / "a", 8), make_run(tmp_path / "b", 4)]
    page = tmp_path / "both.html"
    result = report(*runs, "--json", "--html", str(page))
    facts = json.loads(result.stdout)
    assert [fact["last_loss"] for fact in facts] == [1.0, 2.0]
    assert [fact["last_step"] for fact in facts] == [8, 4]
    assert page.exists()
    assert not (tmp_path / "a" / "report.html").exists()


def test_a_folder_without_metrics_is_the_users_mistake(report, tmp_path):
    result = report(str(tmp_path))
    assert result.returncode == 2
    assert str(tmp_path / "metrics.jsonl") in result.stderr
    assert report().returncode == 2
