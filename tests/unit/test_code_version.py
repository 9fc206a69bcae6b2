"""The version of the code behind a script: what changes it, and what each script of the workflow reaches."""

import ast
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from refusal_eval.config.kinds import ANALYSES, CHANGES, TABLES
from refusal_eval.core import code_version as versions
from refusal_eval.core.code_version import LIBRARY, code_version, imported_modules
from refusal_eval.workflow import generation
from refusal_eval.workflow.analysis import measuring_module

SCRIPT = "from lib.scores import rate\nprint(rate([1]))\n"
MODULES = {
    "__init__.py": '"""A library."""\n',
    "scores.py": '"""Scores."""\n\nfrom lib import means\n\ndef rate(z):\n    """Mean."""\n    return means.mean(z)\n',
    "means.py": "def mean(z):\n    # All of them.\n    return sum(z) / len(z)\n",
    "tables.py": "from lib.scores import rate\n",
    "weights/__init__.py": "",
    "weights/fetch.py": "",
}


def version(folder, script=SCRIPT, **changed):
    """Return the version of a script behind which a small library stands, with some of its modules changed."""
    library = folder / "lib"
    for name, text in (MODULES | {f"{name}.py": text for name, text in changed.items()}).items():
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(text)
    (folder / "script.py").write_text(script)
    return code_version(folder / "script.py", library=library)


@pytest.fixture
def before(tmp_path):
    return version(tmp_path / "before")


def test_a_version_is_sixteen_hex_digits_wherever_the_library_lies(tmp_path, before):
    assert re.fullmatch(r"[0-9a-f]{16}", before)
    assert version(tmp_path / "elsewhere") == before


def test_descriptions_of_fields_keep_it_and_bounds_do_not(tmp_path):
    field = 'from pydantic import Field\nvotes = Field(1, ge={bound}, description="{words}")\n'
    one, other, bounded = (
        version(tmp_path / name, scores=field.format(bound=bound, words=words))
        for name, bound, words in (("a", 1, "Votes."), ("b", 1, "How many votes."), ("c", 2, "Votes."))
    )
    assert one == other != bounded


def test_what_is_imported_for_types_alone_does_not_count(tmp_path):
    head = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lib import {}\nelse:\n    from lib import {}\n"
    )
    typed, run = (head.format(*names) for names in (("means", "weights"), ("weights", "means")))
    other = "def mean(z):\n    return 0\n"
    assert version(tmp_path / "a", scores=typed) == version(tmp_path / "b", scores=typed, means=other)
    assert version(tmp_path / "c", scores=run) != version(tmp_path / "d", scores=run, means=other)


def test_a_module_beside_a_plugin_counts_and_one_that_nobody_imports_does_not(tmp_path, before):
    library, script = tmp_path / "before" / "lib", tmp_path / "before" / "script.py"
    found = []
    for name, words, other in (("one", "A = 1\n", "A = 1\n"), ("two", "A = 1\n", "A = 2\n"), ("three", "A = 2\n", "")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "plugin.py").write_text("import my_words\n")
        (folder / "my_words.py").write_text(words)
        (folder / "other.py").write_text(other)
        found.append(code_version(script, folder / "plugin.py", library=library))
    assert found[0] == found[1] != found[2]


def test_a_module_that_is_found_by_name_counts_with_what_it_imports(tmp_path, before):
    library, plugin = tmp_path / "before" / "lib", tmp_path / "plugin.py"
    plugin.write_text("from lib import tables\n")
    script = tmp_path / "before" / "script.py"
    assert code_version(script, library=library) == before != code_version(script, plugin, library=library)
    assert library / "tables.py" in imported_modules(script, plugin, library=library)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Mean."""', '"""The mean of all."""'),
        ('    """Mean."""\n', ""),
        ('"""Scores."""', '"""Scores.\n\nAnd more.\n"""'),
        ("    return", "    # A comment.\n\n    return"),
        ("means.mean(z)", "means.mean(\n        z\n    )"),
    ],
)
def test_comments_docstrings_and_layout_keep_it(tmp_path, before, old, new):
    assert old in MODULES["scores.py"]
    assert version(tmp_path / "after", scores=MODULES["scores.py"].replace(old, new)) == before


def test_a_formula_changes_it_also_behind_another_module(tmp_path, before):
    scores = MODULES["scores.py"].replace("means.mean(z)", "1 - means.mean(z)")
    means = MODULES["means.py"].replace("/ len(z)", "/ max(1, len(z))")
    versions = {before, version(tmp_path / "one", scores=scores), version(tmp_path / "two", means=means)}
    assert len(versions) == 3


def test_modules_that_are_not_imported_do_not_count(tmp_path, before):
    assert version(tmp_path / "after", tables="from lib.scores import rate\n\nEXTRA = 1\n") == before


def test_a_corrected_script_counts_whatever_its_time_and_a_comment_in_it_does_not(tmp_path, before):
    """Snakemake sees only that a script is newer than results; one from a release archive may be older."""
    assert version(tmp_path / "one", script=SCRIPT + "print(2)\n") != before
    assert version(tmp_path / "two", script=SCRIPT + "# Printed.\n") == before


@pytest.mark.parametrize(
    ("module", "text", "changed"),
    [
        ("means.py", "def mean(z):\n    return max(z)\n", True),
        ("means.py", "def mean(z:", True),  # in the middle of an edit
        ("means.py", None, True),
        ("scores.py", MODULES["scores.py"] + "# a note\n", False),
        ("tables.py", "RATE = 2\n", False),
    ],
)
def test_code_that_changed_since_it_was_looked_at_is_seen(tmp_path, monkeypatch, module, text, changed):
    monkeypatch.setattr(versions, "FOUND", {})
    version(tmp_path)
    assert versions.changed_code() == []
    file = tmp_path / "lib" / module
    file.unlink() if text is None else file.write_text(text)
    assert versions.changed_code() == ([file] if changed else [])


def test_a_template_counts_by_its_content(tmp_path, before):
    library, note = tmp_path / "before" / "lib", tmp_path / "note.j2"
    found = set()
    for text in ("{{ rate }} of them", "{{ rate }} of all"):
        note.write_text(text)
        versions.FOUND.clear()
        versions.code_version.cache_clear()
        found.add(code_version(tmp_path / "before" / "script.py", note, library=library))
    assert len(found) == 2 and before not in found


def test_imports_inside_functions_and_the_files_of_packages_count(tmp_path):
    version(tmp_path, script="def f():\n    from lib.weights import fetch\n")
    modules = imported_modules(tmp_path / "script.py", library=tmp_path / "lib")
    names = [module.relative_to(tmp_path / "lib").as_posix() for module in modules]
    assert names == ["__init__.py", "weights/__init__.py", "weights/fetch.py"]


def test_a_star_or_a_whole_module_counts_like_a_name(tmp_path):
    found = []
    for folder, script in ((tmp_path / "a", "from lib.scores import *"), (tmp_path / "b", "import lib.scores")):
        version(folder, script=script)
        modules = imported_modules(folder / "script.py", library=folder / "lib")
        found.append([module.name for module in modules])
    assert found == [["__init__.py", "means.py", "scores.py"]] * 2


def test_what_is_kept_of_files_changes_no_version_and_may_be_damaged(tmp_path, monkeypatch, before):
    monkeypatch.setattr(versions, "KEPT", tmp_path / "__pycache__" / "kept.json")  # Python may write no bytecode
    for text in (None, "{", "[1]", "5"):
        if text is not None:
            versions.KEPT.write_text(text)
        versions.FOUND.clear()
        for cache in (versions._stored_facts, versions._own_imports, versions.code_version):
            cache.cache_clear()
        assert version(tmp_path / "again") == before
        assert len(json.loads(versions.KEPT.read_text())) >= 3, "written again"


# What reads study files: of the config, scripts need the classes of entries alone.
PLANNING = {"config/load_study", "config/catalogue", "config/checked_study", "config/study_mistakes"}
PLANNING |= {"config/study_entry", "config/lock_file"}


def test_no_script_whose_code_reruns_it_reaches_what_plans_it(repository):
    # An edited rule would otherwise rerun every study.
    rules = [path.read_text(encoding="utf-8") for path in (repository / "workflow" / "rules").glob("*.smk")]
    names = {name for rule in rules for name in re.findall(r'ROOT / "scripts" / "(\w+)\.py"', rule)}
    assert {"score_cell", "identify_engine", "make_figure"} <= names
    for name in names:
        modules = imported_modules(repository / "scripts" / f"{name}.py")
        reached = {module.relative_to(LIBRARY).with_suffix("").as_posix() for module in modules}
        assert not [module for module in reached if module.startswith("workflow/") or module in PLANNING], name


def test_the_code_behind_an_analysis_or_a_table_is_not_what_plans_it(repository):
    files = {f"analysis {name}": measuring_module(name) for name in ANALYSES.names()}
    files |= {f"table {name}": TABLES.module(name) for name in TABLES.names()}
    for name, file in files.items():
        modules = imported_modules(repository / "scripts" / "make_table.py", file)
        reached = {module.relative_to(LIBRARY).with_suffix("").as_posix() for module in modules}
        assert not [module for module in reached if module.startswith("workflow/") or module in PLANNING], name


def test_a_corrected_capture_of_activations_reruns_it(repository):
    rule = (
        (repository / "workflow" / "rules" / "activations.smk").read_text(encoding="utf-8").split("rule direction:")[0]
    )
    assert 'ROOT / "scripts" / "capture_activations.py"' in rule and '"capture_program.py"' in rule
    reached = {module.name for module in imported_modules(repository / "scripts" / "capture_activations.py")}
    assert {"asked.py", "capture.py", "tensor_files.py"} <= reached


def test_the_library_has_no_relative_imports_which_would_not_be_followed():
    for module in LIBRARY.rglob("*.py"):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level], module


@pytest.mark.parametrize("name", CHANGES.names())
def test_the_code_of_a_load_and_of_the_methods_section_makes_no_requests_again(repository: Path, name: str) -> None:
    """Requests that the engine rejects are sent again by each load that runs again."""
    found = imported_modules(repository / "scripts" / "render_requests.py", CHANGES.module(name))
    rooms = {path.relative_to(LIBRARY).parts[0] for path in found}
    assert "ask" in rooms and not {"engines", "report"} & rooms


@pytest.mark.parametrize("name", CHANGES.names())
def test_the_words_and_the_load_of_a_change_are_among_the_code_behind_what_they_make(name: str) -> None:
    value = {"intervention": {"mode": "add"}, "attention": {"kind": "attention"}}.get(name, {})
    models = {"m": {CHANGES.get(name)().key: value}}
    study = SimpleNamespace(models=models, every_model=models)
    words = generation.changing_modules(study, "m", code="words_code")
    load = generation.changing_modules(study, "m", code="load_code")
    loads = CHANGES.get(name).loads  # else it has no code of a load
    assert len(words) == 2 and len(load) == 1 + loads and len({*words, *load}) == 2 + loads
