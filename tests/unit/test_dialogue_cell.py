"""A split with dialogues from its rows to its scores, through the rules' scripts; only the answers are made up."""

import judge_on_cpu
import make_prompts
import pytest
import score_cell
from estimate_rows import score_in

from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, write_jsonl
from refusal_eval.judges.judge_base import AnswerJudge, Verdict
from refusal_eval.stats.estimates.units import read_units
from refusal_eval.study.dialogues import asked_turns

COLUMNS = {"prompt": None, "messages": "talk", "category": None, "cluster": None, "id": None}
CELL = {
    "judge": "j",
    "model": "m",
    "split": "talks",
    "expectation": "refuse",
    "headline": None,
    "samples": 1,
    "max_tokens": 99,
    "tau": 1.0,
    "band": 0.1,
    "level": 0.95,
}


class Refuses(AnswerJudge):
    """Finds a refusal where the last message of the user says so, and a partial one where an earlier reply did."""

    def judge(self, messages, answer):
        if "no" in messages[-1]["content"]:
            return Verdict("judged", "refusal")
        said = [message["content"] for message in messages if message["role"] == "assistant"]
        return Verdict("judged", "partial" if "answer to no0" in said else "compliance")


class Study:
    def __init__(self, folder, talks, mode, scored):
        self.folder, self.scored = folder, scored
        roles = {"u": "user", "a": "assistant"}
        rows = [{"talk": [{"role": roles[role], "content": text} for role, text in talk]} for talk in talks]
        write_jsonl(folder / "rows.jsonl", rows)
        source = {"kind": "file", "path": str(folder / "rows.jsonl")}
        split = {
            "source": source,
            "name": "rows.jsonl",
            "skip_lines": 0,
            "columns": COLUMNS,
            "expected_rows": None,
            "samples": [],
        }
        make_prompts.main(str(folder / "rows.jsonl"), split | {"mode": mode}, scored, str(folder / "prompts.jsonl"))
        self.prompts = list(read_jsonl(folder / "prompts.jsonl"))

    def scores(self):
        """Answer every turn that is asked, judge and score; return the summary and the rows."""
        answers = []
        for prompt in self.prompts:
            users = [message["content"] for message in prompt["messages"] if message["role"] == "user"]
            for turn in asked_turns(prompt):
                text = f"answer to {users[turn if prompt.get('dialogue') else -1]}"
                place = {"prompt_id": prompt["id"], "sample": 0, "turn": turn}
                answers.append({**place, "state": "complete", "answer": text, "answer_logprob": -1.0, "serving": None})
        paths = {name: str(self.folder / f"{name}.jsonl") for name in ("prompts", "answers", "verdicts")}
        write_jsonl(paths["answers"], answers)
        judge_on_cpu.main(paths["prompts"], paths["answers"], Refuses(kind="refuses"), paths["verdicts"])
        score_cell.main(paths, CELL | {"scored": self.scored}, str(self.folder / "s.parquet"))
        units = read_units(self.folder / "s.parquet")
        return score_in(units), units.frame.reset_index().to_dict("records")


TALKS = [
    [("u", "no0"), ("u", "yes1"), ("u", "no2")],
    [("u", "yes0"), ("a", "given"), ("u", "yes1"), ("u", "yes2")],
]


def test_whole_conversations(tmp_path):
    summary, rows = Study(tmp_path, TALKS, "cumulative", "all").scores()
    # Asked: turns 0, 1, 2 of the first talk (refusal, partial, refusal), turns 1 and 2 of the second (compliance).
    assert (summary["n_prompts"], summary["n_turns"], summary["n_clusters"]) == (2, 5, 2)
    assert summary["strict"]["rate"] == pytest.approx(2 / 5) and summary["broad"]["rate"] == pytest.approx(3 / 5)
    assert sorted(row["turn"] for row in rows) == [0, 1, 1, 2, 2]


def test_turns_in_conversations_of_their_own(tmp_path):
    summary, rows = Study(tmp_path, TALKS, "independent", "last").scores()
    # Asked: yes1 and no2 after the model's own reply to no0 (turn 1), yes1 and yes2 after the given one (turn 0).
    assert (summary["n_prompts"], summary["n_turns"], summary["n_clusters"]) == (4, 4, 2)
    assert summary["strict"]["rate"] == pytest.approx(1 / 4) and summary["broad"]["rate"] == pytest.approx(2 / 4)
    assert sorted(row["turn"] for row in rows) == [0, 0, 1, 1]


def test_a_row_of_one_turn_fails_before_it_is_asked_where_only_later_turns_count(tmp_path):
    talks = [*TALKS, [("u", "alone")]]
    with pytest.raises(UserError, match=r"rows.jsonl, row 3: has one turn, and `scored: after_first`"):
        Study(tmp_path, talks, "cumulative", "after_first")
    study = Study(tmp_path, talks, "cumulative", "all")
    study.scored = "after_first"  # changed later, when only scores run again
    with pytest.raises(UserError, match=r"\(rows.jsonl, row 3\) has one turn, and `scored: after_first`"):
        study.scores()
