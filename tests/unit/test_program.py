"""The program `refusal-eval`: its help, its verbs, and what it says of mistakes on the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from refusal_eval.__main__ import VERBS, main

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def test_the_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help_with_its_options(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"refusal-eval {verb}" in shown and "--help" in shown


@pytest.mark.parametrize("arguments", [[], ["chekc"]])
def test_without_a_verb_that_exists_it_says_which_there_are(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    reported = capsys.readouterr()
    assert "  check " in reported.err and not reported.out and not reported.err.startswith("\n")
    assert ("did you mean `check`" in reported.err) is bool(arguments)


def test_an_option_that_does_not_exist_is_a_mistake_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--nope"]) == 2
    assert "--nope" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["check", "pin", "plan", "status", "verify", "export"])
def test_a_study_file_that_is_not_there_is_one_message(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "not_there.yaml"]) == 1
    reported = capsys.readouterr()
    assert "not_there.yaml" in reported.err and "Traceback" not in reported.err and not reported.out


def test_a_name_in_a_message_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "a\x1b[2J.yaml"]) == 1
    reported = capsys.readouterr().err
    assert "\x1b" not in reported and "a[U+001B][2J.yaml" in reported


@pytest.mark.parametrize("arguments", [["--help"], ["plan", "--help"]])
def test_whoever_reads_no_further_gets_no_traceback(arguments: list[str]) -> None:
    """As `refusal-eval --help | head -1`, which closes the pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "refusal_eval", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=environment, text=True, check=False)
    os.close(writer)
    assert (run.returncode, run.stderr) == (1, "")


def test_the_help_imports_no_verb() -> None:
    code = "from refusal_eval.__main__ import main; main(['--help'])"
    command = [sys.executable, "-S", "-c", code]  # without site-packages: the help needs none of them
    run = subprocess.run(command, env={"PYTHONPATH": str(SCRIPTS)}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
