"""The frame around the commands: overview, versions, exit codes, one message per mistake."""


def assert_user_error(result, *parts):
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for part in parts:
        assert part in result.stderr


def test_no_command_prints_the_overview(trine):
    result = trine()
    assert result.returncode == 0
    assert "doctor" in result.stdout


def test_versions_name_the_commit_and_torch(trine):
    lines = trine("--version").stdout.splitlines()
    assert lines[0].startswith("trine ") and "(" in lines[0]
    assert any(line.startswith("torch 2.") for line in lines)


def test_unknown_command_names_the_nearest(trine):
    assert_user_error(trine("doctro"), 'no command "doctro"', 'Did you mean "doctor"?')


def test_unknown_flag_names_the_nearest(trine):
    assert_user_error(trine("doctor", "--jsn"), 'no flag "--jsn"', 'Did you mean "--json"?')


def test_a_word_too_many_is_an_error(trine):
    assert_user_error(trine("doctor", ".", "now"), '"now" is one too many')
