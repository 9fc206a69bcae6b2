"""The program `refusal-eval`: its help, its verbs, and what it says of mistakes on the command line."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from refusal_eval.__main__ import main
from refusal_eval.core.surroundings import about_strangers
from refusal_eval.core.version import VERSION
from refusal_eval.program.terminal import show
from refusal_eval.program.verb import VERBS

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def test_the_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in VERBS.names())


@pytest.mark.parametrize("verb", VERBS.names())
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
    assert not reported.out and not reported.err.startswith("\n")
    assert ("did you mean `check`" in reported.err) is bool(arguments)
    assert ("  check " in reported.err) is not bool(arguments)
    assert "`snakemake --cores all --configfile STUDY.yaml`" in reported.err


@pytest.mark.parametrize("verb", ["run", "demo", "xyzzy"])
def test_what_is_no_verb_says_in_two_lines_how_a_study_runs(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "my_study.yaml"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 2 and f"there is no verb `{verb}`" in said
    assert "a study runs with `snakemake --cores all --configfile STUDY.yaml`" in said


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"refusal-eval {VERSION}\n"


@pytest.mark.feature("labelling")
def test_an_audit_is_drawn_of_the_demo_unless_a_study_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "draw"]) == 1
    assert "there is no results/demo/" in capsys.readouterr().err


PAGE = "WHAT RUNS   cells\n  answers   3\nok    disk\nWARN  clock\nFAIL  GPU\n"


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "variables", "coloured"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_a_page_has_colours_on_a_terminal_alone(
    terminal: bool, variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = Stream(terminal)
    monkeypatch.setattr("sys.stdout", stream)
    show(PAGE.rstrip("\n"))
    shown = stream.getvalue()
    assert ("\x1b" in shown) is coloured
    assert re.sub(r"\x1b\[\d+m", "", shown) == PAGE
    if coloured:
        for painted in ("\x1b[31mFAIL", "\x1b[33mWARN", "\x1b[32mok", "\x1b[1mWHAT RUNS\x1b[0m"):
            assert painted in shown


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


PLUGIN = """
from refusal_eval.program.verb import VERBS, Verb

@VERBS.add
class OwnVerb(Verb):
    name = "{name}"
    does = "{does}"

    @staticmethod
    def command():
        return lambda: print("it ran")
"""


def test_the_verbs_of_all_plugins_before_the_verb_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / f"{name}.py" for name in ("one", "two")]
    for file in files:
        file.write_text(PLUGIN.format(name=file.stem, does=f"is {file.stem}"))
    options = ["--plugin", str(files[0]), f"--plugin={files[1]}"]
    assert main([*options, "two"]) == 0
    assert capsys.readouterr().out == "it ran\n"
    assert main([*options, "tow"]) == 2
    assert "did you mean `two`" in capsys.readouterr().err
    assert main([*options, "status", "--help"]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--plugin"], "`--plugin`: name a Python file"),
        (["--plugin", "not_there.py", "status"], "`--plugin`: there is no file not_there.py"),
        (
            ["--plugin=own.py", "status"],
            "own.py, line 4: cannot be imported: ValueError: there is another verb named",
        ),
    ],
)
def test_a_plugin_that_cannot_be_had_is_one_message(
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(PLUGIN.format(name="plan", does="hides another"))
    assert main(options) == 1
    reported = capsys.readouterr()
    assert said in reported.err and "Traceback" not in reported.err and not reported.out


def test_each_verb_has_the_name_by_which_it_is_found() -> None:
    assert [VERBS.get(name).name for name in VERBS.names()] == VERBS.names()


def ran(*arguments: str, **environment: str) -> str:
    """Return what the program says in a shell with these variables, where it fails in words."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SCRIPTS)!r}); "]
    command[-1] += "from refusal_eval.__main__ import main; sys.exit(main())"
    run = subprocess.run([*command, *arguments], env=os.environ | environment, capture_output=True, text=True)
    assert run.returncode == 1 and "Traceback" not in run.stderr
    return run.stderr


@pytest.mark.parametrize("library", ["yaml", "typer", "pydantic"])
@pytest.mark.parametrize("content", ["", "raise RuntimeError('stranger')"])
def test_a_stranger_with_a_librarys_name_in_pythonpath_is_named(tmp_path: Path, library: str, content: str) -> None:
    (tmp_path / f"{library}.py").write_text(content)
    said = ran("plan", PYTHONPATH=str(tmp_path))
    assert f"({tmp_path / library}.py)" in said and "`unset PYTHONPATH`" in said and said.count("\n") == 1


def test_a_folder_of_ones_own_modules_in_pythonpath_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("my_phrases.py", "tests.py"):
        (tmp_path / name).touch()
    for folder in (str(tmp_path), str(SCRIPTS), "", "/nowhere"):
        monkeypatch.setenv("PYTHONPATH", folder)
        assert about_strangers() is None
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert f"({tmp_path / 'numpy'})" in (about_strangers() or "")


def test_a_locale_that_is_not_utf_8_is_one_sentence() -> None:
    said = ran("plan", PYTHONUTF8="0", LC_ALL="POSIX", PYTHONCOERCECLOCALE="0")
    assert "LC_ALL=POSIX" in said and "export PYTHONUTF8=1" in said and said.count("\n") == 1
