"""README and docs/ say only what holds: commands in README are run, or their words checked where a run would take long, and links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])

# These train or need a run: their recipe and options are checked by `trine config`, their own words by --help.
LONG = {"train", "trial", "eval", "generate", "export", "report"}


def commands():
    """Every `build/bin/trine ...` line of README's shell blocks, without its comment."""
    for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "build/bin/trine":
                yield words[1:]


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_readme_command_works(trine, words):
    if words[0] not in LONG:
        result = trine(*words)
    elif len(words) > 1 and words[1].endswith(".toml"):
        result = trine("config", *words[1:])
    else:
        result = trine(words[0], "--help")
        unknown = [word for word in words[1:] if word.startswith("--") and word.split("=")[0] not in result.stdout]
        assert not unknown, f"`trine {words[0]} --help` does not have {unknown}"
    assert result.returncode == 0, result.stderr


def test_make_targets_in_readme_exist():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(re.findall(r"`[^`]*`|```sh\n.*?```", README, flags=re.DOTALL))))
    assert {"demo", "test"} <= named <= set(targets)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_every_page_of_docs_is_listed_in_readme():
    unlisted = [page.name for page in PAGES if page.parent.name == "docs" and f"docs/{page.name}" not in README]
    assert not unlisted
