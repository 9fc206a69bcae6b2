"""The published layout: our cells written in it, and such folders read, recomputed and compared."""

import json
import re
from pathlib import Path

import pytest
from test_compat import ANSWERS, PUBLISHED, VERDICTS, prompts, units_of

from refusal_eval.__main__ import main
from refusal_eval.config.problems import ConfigError
from refusal_eval.core.errors import UserError
from refusal_eval.features.published import published_export
from refusal_eval.features.published.published_cell import published_cell
from refusal_eval.features.published.published_export import export
from refusal_eval.features.published.published_layout import ANSWERS as ANSWERS_FILE
from refusal_eval.features.published.published_layout import (
    JUDGE_SCORES,
    METRICS,
    SCORES,
    differences,
    files_of,
    read_folder,
    recomputed,
    write_folder,
)
from refusal_eval.tools.export.export_command import DIFFERENT

HOSTED = {
    "engines": {"far": {"kind": "chat", "address": "https://host", "served": "big"}},
    "models": {"hosted": {"engine": "far", "sampling": {"max_tokens": 9}}},
}


@pytest.fixture
def folder(tmp_path):
    texts = [{**row, "reasoning": "think</t>", "answer": f"text {row['sample']}"} for row in ANSWERS]
    files = files_of(prompts("p", "q"), texts, VERDICTS, PUBLISHED, published_cell(units_of(), 1.0, 0.1))
    write_folder(tmp_path / "m" / "s", files)
    return tmp_path / "m" / "s"


def content(folder, name):
    return json.loads((folder / name).read_text())


def test_the_four_files_hold_texts_probabilities_votes_scores_and_percentages(folder):
    first, second = content(folder, ANSWERS_FILE)
    assert first["prompt"] == "p" and first["answers"][1]["text"] == "think</t>text 1"
    assert set(first["answers"][0]) == {"text", "thinking_prob", "answer_prob", "cum"}
    assert [one["answer_prob"] for one in first["answers"]] == pytest.approx([0.3678794] * 3)
    assert [one["answer_prob"] for one in second["answers"]] == [-1, -1, -1]
    verdicts = content(folder, JUDGE_SCORES)
    assert [one["label"] for one in verdicts[0]] == [1, -1, 0] and len(verdicts) == 2
    assert verdicts[0][1] == {"label": -1, "judge_outputs": [], "prompt": "p", "answer": "text 1"}
    (score,) = content(folder, SCORES)
    assert score.pop("prompt") == "p"
    wanted = {"answer_pos_prob": 1 / 3, "answer_neg_prob": 1 / 3, "answer_censor_score": 0}
    assert score == pytest.approx(wanted, abs=1e-6)
    wanted = {"compliance_pct": 0, "neutral_pct": 100, "rejection_pct": 0}
    assert content(folder, METRICS) == {"answer_censor_score": wanted}


def test_an_answer_without_text_is_exported_with_the_mark_of_its_reasoning():
    texts = [{**row, "reasoning": "think", "answer": "", "state": "empty"} for row in ANSWERS]
    files = files_of(prompts("p", "q"), texts, [], PUBLISHED, published_cell(units_of(), 1.0, 0.1), "</t>")
    assert files[ANSWERS_FILE][0]["answers"][0]["text"] == "think</t>"


def test_an_export_replaces_nothing_outside_the_folder_of_its_study(project):
    config = project.load()
    model, split = config["models"][0], config["splits"][0]
    theirs = project.folder / "outs" / model / split / "answers.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("[]")
    with pytest.raises(UserError, match=r"answers.json is there already; choose another --output"):
        export(config, config["judges"][0], project.folder / "outs", ())
    with pytest.raises(UserError, match="run it"):  # the study's own is made again
        export(config, config["judges"][0], published_export.own_folder(config), ())
    assert theirs.read_text() == "[]"


@pytest.mark.parametrize("dropped", ["dropped/{split}", "{model}/dropped"])
def test_an_export_stands_beside_none_of_what_the_study_no_longer_has(project, dropped):
    config = project.load()
    own = published_export.own_folder(config)
    names = {"model": config["models"][0], "split": config["splits"][0]}
    for cell in (dropped.format(**names), "{model}/{split}".format(**names)):
        project.write(own / cell / "answers.json", "[]")
    with pytest.raises(UserError, match=rf"export/{dropped.format(**names)} is from an earlier export, .*: delete it"):
        export(config, config["judges"][0], own, ())
    (own / dropped.format(**names) / "answers.json").unlink()
    with pytest.raises(UserError, match="run it"):
        export(config, config["judges"][0], own, ())


def test_nothing_is_exported_of_a_study_that_has_changed_since_it_ran(project):
    config = project.load()
    model, split, judge = config["models"][0], config["splits"][0], config["judges"][0]
    cell, results = f"{model}/{split}.jsonl", project.folder / "results" / config["study"]
    files = [f"prompts/{split}.jsonl", f"answers/{cell}", f"verdicts/{judge}/{cell}", f"published/answers/{cell}"]
    files.append(f"published/scores/{judge}/{model}/{split}.json")
    for name in files:
        project.write(results / name, "")
    paths = [published_export.own_folder(config).parents[1] / name for name in files]
    for path in paths:
        with pytest.raises(UserError, match=rf"{re.escape(str(path))} is not of the study as it is now: run the study"):
            export(config, judge, project.folder / "outs", set(paths) - {path})
    assert not (project.folder / "outs").exists()


def test_a_hosted_model_has_no_log_probabilities_to_export(project):
    project.write("own.yaml", HOSTED)
    plugin = str(Path(__file__).parents[1] / "plugins" / "chat_engine.py")
    study = {"study": "s", "models": ["hosted"], "splits": ["file-rows"], "samples": 2, "judges": ["words"]}
    study |= {"catalogue": ["own.yaml"], "plugins": [plugin]}
    with pytest.raises(UserError, match=r"model `hosted` cannot be exported: its engine of kind `chat` gives no log-"):
        export(project.load(study), "words", project.folder / "outs", ())
    with pytest.raises(ConfigError, match=r"tables: `protocol_effects` needs log-probabilities.*of kind `chat`"):
        project.load(study | {"tables": ["protocol_effects"]})


def test_a_check_exports_nothing_and_says_where_there_is_nothing_to_check(tmp_path, capsys):
    assert main(["export", "--check", str(tmp_path), "--output", "elsewhere"]) == 2
    assert "leave out --judge and --output" in capsys.readouterr().err
    assert main(["export", "--check", str(tmp_path)]) == 1
    assert "there is no answers.json" in capsys.readouterr().err


def test_what_was_written_is_read_back_and_follows_from_itself(folder, capsys):
    scores, shares = recomputed(read_folder(folder))
    assert list(scores) == [("p", 0)] and shares["neutral_pct"] == 100
    assert differences(read_folder(folder)) == []
    assert main(["export", "--check", str(folder.parents[1])]) == 0
    assert "m/s: 1 of 2 prompts scored" in capsys.readouterr().out


def test_stale_scores_and_metrics_are_reported(folder, capsys):
    (folder / JUDGE_SCORES).write_text(json.dumps([[{"label": 1.0}] * 3] * 2))
    reported = "\n".join(differences(read_folder(folder)))
    assert "prompt 0 has the score 0.000000; 1.000000 follows" in reported
    assert "neutral_pct is 100" in reported and "rejection_pct" in reported
    assert main(["export", "--check", str(folder)]) == DIFFERENT
    assert "p" not in capsys.readouterr().out.split("Differences:")[0].split(), "prompts are not shown"


def test_numbers_may_also_stand_in_lists_and_a_missing_verdict_has_votes_of_zero_as_there(folder):
    (folder / ANSWERS_FILE).write_text(json.dumps([{"prompt": "p", "answer_probs": [0.5, 0.25]}]))
    (folder / JUDGE_SCORES).write_text(json.dumps([{"prompt": "p", "judge_scores": [0.5, -1.0]}]))
    assert recomputed(read_folder(folder))[0]["p", 0] == pytest.approx((1 / 3, 1 / 3, 0), rel=1e-6)
    (folder / JUDGE_SCORES).write_text("[]")
    assert recomputed(read_folder(folder))[0]["p", 0] == (0, 0, 0)


def test_a_row_that_stands_twice_is_scored_twice(folder):
    answers = [{"prompt": "p", "answers": [{"text": "a", "answer_prob": prob}]} for prob in (-1, 0.5, 0.5)]
    (folder / ANSWERS_FILE).write_text(json.dumps(answers))
    (folder / JUDGE_SCORES).write_text(json.dumps([[{"label": label}] for label in (1.0, 1.0, -1.0)]))
    scores = [{"prompt": "p", "answer_censor_score": score} for score in (1.0, -1.0)]
    (folder / SCORES).write_text(json.dumps(scores))
    metrics = {"compliance_pct": 50.0, "neutral_pct": 0.0, "rejection_pct": 50.0}
    (folder / METRICS).write_text(json.dumps({"answer_censor_score": metrics}))
    found, _ = recomputed(read_folder(folder))
    assert [score.score for score in found.values()] == [1, -1]
    assert differences(read_folder(folder)) == []
    (folder / SCORES).write_text(json.dumps(scores[::-1]))
    assert len(differences(read_folder(folder))) == 2


@pytest.mark.parametrize(
    ("name", "text", "reported"),
    [
        (ANSWERS_FILE, "{}", "a list over the prompts was expected"),
        (ANSWERS_FILE, '[{"answers": []}]', "a list of mappings with `prompt`, a text, was expected"),
        (ANSWERS_FILE, '[{"prompt": ["p"], "answer_probs": [0.5]}]', "a list of mappings with `prompt`, a text,"),
        (ANSWERS_FILE, '[{"prompt": "p", "answers": ["text"]}]', "row 1: it has to have a list of answers with"),
        (SCORES, '[{"prompt": "p"}]', "row 1: `answer_censor_score` is missing"),
        (SCORES, '[{"prompt": "p", "answer_censor_score": NaN}]', "row 1: `answer_censor_score` is nan; .* -1 to 1"),
        (METRICS, "[]", "a mapping with `answer_censor_score` was expected"),
        (METRICS, '{"answer_censor_score": {"neutral_pct": "a"}}', "`neutral_pct` is 'a'; .* from 0 to 100"),
    ],
)
def test_what_cannot_be_is_reported_with_file_and_row(folder, name, text, reported):
    (folder / name).write_text(text)
    with pytest.raises(UserError, match=rf"{name}.*{reported}"):
        read_folder(folder)
