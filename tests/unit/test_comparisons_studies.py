"""Two finished studies side by side."""

import csv
import json
import shutil

import pytest
from comparison_rows import write_scores
from table_rows import cards

from refusal_eval.__main__ import main
from refusal_eval.core.files import sha256_of_file, write_json, write_jsonl
from refusal_eval.tools.compare.manifest_differences import files_that_differ, settings_that_differ


def study(folder, name, cells, seed=0, text="Is it so?", **manifest):
    """Write a finished study; `cells` are texts of samples by prompt id, by (model, split)."""
    results = folder / name
    for (model, split), rows in cells.items():
        names = {"model": model, "split": split, "headline": "strict"}
        write_scores(results / "scores" / "words" / model / f"{split}.parquet", rows, judge="words", **names)
        messages = [{"role": "user", "content": text}]
        write_jsonl(results / "prompts" / f"{split}.jsonl", [{"id": i, "messages": messages} for i in rows])
    content = {"study": {"study": name, "seed": seed, "primary_judge": "words"}, "files": {}, **manifest}
    write_json(results / "manifest.json", content)
    return results


def prompts(*letters):
    return {f"id{i:02d}": text for i, text in enumerate(letters)}


@pytest.fixture
def two(tmp_path):
    before = {("plain", "harm"): prompts(*["cc"] * 10, "rr", "cc"), ("plain", "safe"): prompts("cc", "rr")}
    after = {("plain", "harm"): prompts(*["rr"] * 10, "rr", "rc"), ("stern", "harm"): prompts("rr")}
    return study(tmp_path, "one", before), study(tmp_path, "two", after, seed=7)


def test_the_difference_is_the_second_minus_the_first_on_shared_prompts(two, capsys, tmp_path):
    assert main(["compare", *map(str, two), "--output", str(tmp_path / "out")]) == 0
    with open(tmp_path / "out" / "studies.csv", newline="", encoding="utf-8") as handle:
        (row,) = csv.DictReader(handle)
    assert float(row["rate_first"]) == pytest.approx(1 / 12, abs=1e-6)
    assert float(row["rate_second"]) == pytest.approx(11.5 / 12, abs=1e-6)
    assert float(row["difference"]) == pytest.approx(10.5 / 12, abs=1e-6)
    assert float(row["p"]) == pytest.approx(2 / 2**11, abs=1e-6) and row["changed"] == "11"
    assert (tmp_path / "out" / "studies.tex").read_text().startswith("% Needs")
    shown = capsys.readouterr().out
    for source in ("**", "<br>", "\\", "| "):
        assert source not in shown.split("What differs")[0], "aligned text, and no source of a page"
    page = (tmp_path / "out" / "studies.md").read_text()
    assert page.startswith("# A: ") and "| Judge | Model |" in page
    assert main(["compare", *map(str, two), "--output", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text() == page


def test_the_page_and_its_latex_say_how_well_judges_agree_with_people(two, capsys, tmp_path):
    (card,) = cards()
    for results, kappa in zip(two, (0.8, 0.7), strict=True):
        content = json.loads((results / "manifest.json").read_text())
        write_json(results / "manifest.json", {**content, "study": content["study"] | {"gold": ["pyrit"]}})
        readings = {reading: card[reading] | {"kappa": kappa} for reading in ("strict", "broad")}
        write_json(results / "judge_cards" / "words" / "pyrit.json", {**card, "judge": "words", **readings})
        write_json(results / "judge_cards" / "words" / "dropped.json", {**card, "judge": "words", "gold": "dropped"})
    assert main(["compare", str(two[0]), str(two[0])]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Judge words, agreement with people on pyrit (50 answers): kappa 0.80 strict" in said
    assert main(["compare", *map(str, two), "--output", str(tmp_path / "out")]) == 0
    for text in (" ".join(capsys.readouterr().out.split()), (tmp_path / "out" / "studies.tex").read_text()):
        assert "as the judge reads them" in text and "dropped" not in text
        assert "A: Judge words, agreement with people on pyrit (50 answers): kappa 0.80 strict" in text
        assert "B: Judge words, agreement with people on pyrit (50 answers): kappa 0.70 strict" in text


def test_a_comparison_under_a_judge_without_gold_says_so(two, capsys):
    assert main(["compare", *map(str, two)]) == 0
    text = capsys.readouterr().out
    assert "as the judge reads them" in text and text.count("Judge words, agreement with people: not measured.") == 1


def test_the_page_tells_cells_of_one_study_only_changed_prompts_and_settings(two, capsys):
    assert main(["compare", *map(str, two), "--most", "3"]) == 0
    text = capsys.readouterr().out
    assert "Only in A (judge/model/split):\n  words/plain/safe\n" in text
    assert "Only in B (judge/model/split):\n  words/stern/harm\n" in text
    assert text.count("  id0") == 3 and "Is it so?" in text
    assert "  study.seed: 0 | 7" in text


def test_prompts_of_one_study_only_are_left_out_and_counted(tmp_path, capsys):
    one = study(tmp_path, "one", {("plain", "harm"): prompts("cc", "cc", "cc")})
    two = study(tmp_path, "two", {("plain", "harm"): prompts("cc", "cr")})
    assert main(["compare", str(one), str(two)]) == 0
    text = capsys.readouterr().out
    assert "Left out: 1 prompts that only A has, 0 that only B has." in text


def test_marks_are_those_of_the_reading_that_is_compared(tmp_path):
    # Broad 1.0 [.981, 1], and .955 if the nine answers without a verdict complied; strict .524 [.453, .594]
    letters = prompts(*"r" * 100, *"p" * 91, *"?" * 9)
    results = [study(tmp_path, name, {("plain", "harm"): letters}) for name in ("one", "two")]
    names = {"model": "plain", "split": "harm", "headline": "broad"}
    write_scores(results[1] / "scores" / "words" / "plain" / "harm.parquet", letters, judge="words", **names)
    for order, flags in ((results, ""), (results[::-1], "unjudged")):
        assert main(["compare", *map(str, order), "--output", str(tmp_path / "out")]) == 0
        with open(tmp_path / "out" / "studies.csv", newline="", encoding="utf-8") as handle:
            assert [row["flags"] for row in csv.DictReader(handle)] == [flags]


def test_a_prompt_that_one_study_lacks_counts_once_whoever_answered_it(tmp_path, capsys):
    letters = {"one": ("cc", "cc", "cc"), "two": ("cc", "cr")}
    made = [
        study(tmp_path, name, {(model, "harm"): prompts(*own) for model in ("plain", "stern")})
        for name, own in letters.items()
    ]
    assert main(["compare", *map(str, made)]) == 0
    assert "Left out: 1 prompts that only A has, 0 that only B has." in capsys.readouterr().out


def test_scores_of_what_the_study_no_longer_has_are_left_alone(tmp_path, capsys):
    cells = {(model, "harm"): prompts("cc", "cr", "rr", "cc") for model in ("plain", "dropped")}
    made = [study(tmp_path, name, cells) for name in ("one", "two")]
    for folder in made:
        content = json.loads((folder / "manifest.json").read_text())
        content["study"] |= {"judges": ["words"], "models": ["plain"], "splits": ["harm"]}
        write_json(folder / "manifest.json", content)
    assert main(["compare", *map(str, made)]) == 0
    assert "dropped" not in capsys.readouterr().out
    assert main(["power", "--pilot", str(made[0]), "--models", "plain", "dropped"]) == 1
    content["study"]["models"] = ["new"]
    write_json(made[1] / "manifest.json", content)
    assert main(["compare", *map(str, made)]) == 1
    assert "has no scores of the models, splits and judges of its study" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["answers/plain/harm.jsonl", "verdicts/words/plain/harm.jsonl"])
def test_a_study_whose_rerun_was_stopped_is_not_taken_for_a_finished_one(tmp_path, capsys, name):
    cells = {(model, "harm"): prompts("cc", "cr", "rr", "cc") for model in ("plain", "stern")}
    one, two = (study(tmp_path, own, cells, files={name: sha256_of_file(__file__)}) for own in ("one", "two"))
    assert main(["compare", str(one), str(two)]) == 0  # what was published has no answers
    (two / name).parent.mkdir(parents=True)
    shutil.copy(__file__, two / name)
    assert main(["compare", str(one), str(two)]) == 0
    write_jsonl(two / name, [{"made": "by the rerun"}])
    capsys.readouterr()
    pilot = ["power", "--pilot", str(two), "--models", "plain", "stern"]
    for command in (["compare", str(one), str(two)], ["compare", str(two), str(one)], pilot):
        assert main(command) == 1
        assert f"{two / name} is not the one that {two / 'manifest.json'} tells of" in capsys.readouterr().err


def test_equal_studies_differ_nowhere(two, capsys):
    assert main(["compare", str(two[0]), str(two[0])]) == 0
    text = capsys.readouterr().out
    assert "No prompt has another refusal rate in B than in A." in text
    assert "  no setting, version or hardware" in text and "1.000" in text
    assert "  identical" in text and "0.0 [" not in text


def test_what_a_prompt_says_cannot_become_markup(tmp_path, capsys):
    text = "<script>x</script> | `y` [z](http://x)\n# Title " + "long " * 60
    one = study(tmp_path, "one", {("plain", "harm"): prompts("cc", "cc")}, text=text)
    two = study(tmp_path, "two", {("plain", "harm"): prompts("rr", "cc")}, text=text)
    main(["compare", str(one), str(two), "--output", str(tmp_path / "page.md")])
    shown, out = capsys.readouterr().out, (tmp_path / "page.md").read_text()
    assert "<script>" not in out and "\n# Title" not in out and "[z](" not in out and "long " * 40 not in out
    assert "\n# Title" not in shown and "long " * 40 not in shown


@pytest.mark.parametrize(
    ("names", "reported"),
    [
        (("one", "nowhere"), "there is no folder"),
        (("one", "empty"), "has no scores (scores/JUDGE/MODEL/SPLIT.parquet)"),
        (("one", "other"), "have no (judge, model, split) in common"),
    ],
)
def test_mistakes_are_reported(tmp_path, capsys, names, reported):
    study(tmp_path, "one", {("plain", "harm"): prompts("cc")})
    study(tmp_path, "other", {("plain", "safe"): prompts("cc")})
    (tmp_path / "empty").mkdir()
    assert main(["compare", *(str(tmp_path / name) for name in names)]) == 1
    assert reported in capsys.readouterr().err


def test_a_study_of_an_earlier_version_is_reported(two, capsys):
    for path in (two[0] / "scores").rglob("*.parquet"):
        path.rename(path.with_suffix(".json"))
    assert main(["compare", *map(str, two)]) == 1
    assert "was made by an earlier version; run its study again, which needs no GPU" in capsys.readouterr().err


# ---------------------------------------------------------------- manifests


def test_settings_that_differ_and_what_only_one_has_as_a_whole():
    first = {"study": {"seed": 1, "results_dir": "a", "model_entries": {"m": {"label": None}}}, "python": "3.11"}
    second = {"study": {"seed": 2, "results_dir": "b", "model_entries": {"m": {"label": None}, "n": {"x": 1}}}}
    assert settings_that_differ(first, second) == [
        ("python", '"3.11"', None),
        ("study.model_entries.n", None, "there"),
        ("study.seed", "1", "2"),
    ]


def test_servings_are_compared_by_what_they_are_not_by_their_hashes():
    first = {"serving": {"aaa": {"vllm": "0.32.0", "device": "cpu"}}}
    assert settings_that_differ(first, {"serving": {"bbb": {"vllm": "0.32.0", "device": "cpu"}}}) == []
    assert settings_that_differ(first, {"serving": {"aaa": {"vllm": "0.33.0", "device": "cpu"}}}) == [
        ("serving.vllm", "0.32.0", "0.33.0")
    ]


def test_what_served_judges_is_compared_too():
    first, second = ({"judge_serving": {"a": {"vllm": version}}} for version in ("0.32.0", "0.33.0"))
    assert settings_that_differ(first, second) == [("judge_serving.vllm", "0.32.0", "0.33.0")]


def test_files_are_counted_by_kind():
    first = {"files": {"answers/m/s.jsonl": "1", "prompts/s.jsonl": "2", "prompts/t.jsonl": "3"}}
    second = {"files": {"answers/m/s.jsonl": "9", "prompts/s.jsonl": "2", "answers/n/s.jsonl": "4"}}
    assert files_that_differ(first, second) == [("answers", [0, 1, 0, 1]), ("prompts", [1, 0, 1, 0])]


def test_nothing_in_a_study_is_written(two):
    def content():
        return {path: path.read_bytes() for folder in two for path in folder.rglob("*") if path.is_file()}

    before = content()
    main(["compare", *map(str, two)])
    assert content() == before and json.loads((two[0] / "manifest.json").read_text())
