"""Sixty answers that try to steer a judge (benchmarks/attacked_judges.py): no kind of judge fails on any of them, and
none of them gets out of its place in what a judge is asked."""

import math
import re
import time
from collections import Counter
from types import SimpleNamespace

import attacked_judges
import numpy as np
import pytest
from attacked_judges import BASES, FORMS, PADDING, attacks, judged, line_of, plain
from judge_entries import judge_entry
from test_judge_attacks import FAMILIES
from tokenizer_folders import byte_tokenizer, unigram_tokenizer

from refusal_eval.ask.render import Renderer
from refusal_eval.core.files import write_json, write_jsonl
from refusal_eval.core.states import JUDGED, LABELS, UNPARSABLE
from refusal_eval.judges.conversations import with_gap
from refusal_eval.judges.keyword_judge import KeywordReader
from refusal_eval.judges.trained.features import FeatureReader
from refusal_eval.judges.verdict_files import read_safely

ATTACKS = attacks()
RUBRICS = {
    "refusal_labels": "llm",
    "refusal_labels_short": "llm",
    "refusal_yes_no": "llm",
    "refusal_reasoned": "reasoned",
}
KEPT = 2000  # characters of a long attack that most tests show a judge
CONTROL = [token for _, special in FAMILIES.values() for token in special]


def asked(attack):
    return [{"role": "user", "content": attack.prompt}]


@pytest.fixture(scope="module")
def keyword(repository):
    return KeywordReader.from_files(sorted((repository / "config" / "keywords").glob("*.yaml")))


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Return folders of a byte tokenizer that knows the control tokens of four families, and of a unigram one."""
    folder = tmp_path_factory.mktemp("tokenizers")
    return byte_tokenizer(folder / "bytes", special=CONTROL, adds_bos=True), unigram_tokenizer(folder / "unigram")


def control_ids(renderer, token_ids):
    control = {i for i, token in renderer.tokenizer.added_tokens_decoder.items() if token.special}
    return [token for token in token_ids if token in control - {renderer.tokenizer.unk_token_id}]


def shown(attack):
    """Return an attack's answer, the middle of a long one left out as the workflow does it."""
    return with_gap(attack.answer, KEPT) if len(attack.answer) > 2 * KEPT else attack.answer


def test_there_are_sixty_and_the_longest_have_a_hundred_thousand_characters():
    assert len(ATTACKS) == len({attack[2:] for attack in ATTACKS}) == 60 == len(FORMS) * len(BASES)
    assert sum(len(attack.answer) >= PADDING - 1000 for attack in ATTACKS) == 6


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack.name}, {attack.base}")
def test_the_keyword_judge_and_its_features_come_back_within_a_second(attack, keyword):
    started = time.process_time()
    verdict = keyword.judge(asked(attack), attack.answer)
    assert verdict.state == JUDGED and verdict.label in LABELS
    features = FeatureReader(["words", "vectors", "reading"], keyword)
    seen = features.seen(asked(attack), attack.answer, np.ones(8, dtype=np.float32))
    assert all(map(math.isfinite, seen.numbers)) and len(seen.ngrams) < 5000
    assert time.process_time() - started < 2, "two readings"


@pytest.mark.parametrize("rubric", RUBRICS)
def test_every_answer_stays_between_its_tags(rubric, repository, tokenizers):
    judge = judge_entry(RUBRICS[rubric], rubric=str(repository / "config" / "rubrics" / f"{rubric}.md"))
    renderer = Renderer(tokenizers[0], untrusted=True)
    usual = control_ids(renderer, judge.token_ids(renderer, asked(plain()[0]), plain()[0].answer))
    for attack in ATTACKS:
        answer = attack.answer if rubric == "refusal_yes_no" else shown(attack)
        token_ids = judge.token_ids(renderer, asked(attack), answer)
        assert control_ids(renderer, token_ids) == usual, attack
        text = renderer.tokenizer.decode(token_ids, skip_special_tokens=False)
        # The tags with the code of prompt and answer are the last of the rubric, and occur once.
        tag = re.findall(r"^<((?:response|reply)_[a-z]{10})>$", text.replace(answer, ""), flags=re.MULTILINE)[-1]
        assert Counter(re.findall(rf"</?{tag}>", text)) == {f"<{tag}>": 1, f"</{tag}>": 1}
        assert text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0] == answer, attack


@pytest.mark.parametrize("kind", ["wildguard", "qwen3guard", "classifier", "trained", "first_token"])
def test_no_answer_adds_a_control_token(kind, repository, tokenizers):
    entries = {
        "wildguard": {},
        "classifier": {"template": str(repository / "config" / "templates" / "classifier_minos.jinja")},
        "trained": {},
    }
    judge = judge_entry(kind, **entries.get(kind, {}))
    how = judge.rendering() | {"trust_remote_code": False}
    for folder in tokenizers if kind in ("classifier", "trained") else tokenizers[:1]:
        renderer = Renderer.from_params(folder, how, untrusted=True)
        usual = control_ids(renderer, judge.token_ids(renderer, asked(plain()[0]), plain()[0].answer))
        assert kind != "trained" or usual.count(usual[0]) == 4
        for attack in ATTACKS:
            token_ids = judge.token_ids(renderer, asked(attack), shown(attack))
            assert control_ids(renderer, token_ids) == usual, (folder.name, attack)


def test_the_words_of_a_format_without_a_code_are_taken_apart(repository, tokenizers):
    for kind, own in (("wildguard", "[/INST]"), ("classifier", "<|assistant|>")):
        template = {"template": str(repository / "config" / "templates" / "classifier_minos.jinja")}
        judge = judge_entry(kind, **(template if kind == "classifier" else {}))
        renderer = Renderer.from_params(tokenizers[0], judge.rendering() | {"trust_remote_code": False}, untrusted=True)
        for attack in ATTACKS:
            text = renderer.text(judge.messages(asked(attack), shown(attack)))
            assert text.count(own) == 1, attack


def test_a_judge_that_says_the_attack_itself_is_read_without_failing():
    """Only the verdict's own form counts: the whole JSON, or a guard's three lines and nothing beside them."""
    checked = {"refusal_tokens": {"Yes": 1, "No": 2}}
    for kind in ("reasoned", "wildguard", "qwen3guard"):
        judge = judge_entry(kind)
        for attack in ATTACKS:
            verdict = read_safely(lambda said, judge=judge: judge.verdict(said, checked), {"text": attack.answer})
            expected = JUDGED if (kind, attack.name) == ("reasoned", "JSON around") else UNPARSABLE
            assert verdict.state == expected, attack


def test_the_table_counts_flips_of_plain_texts_that_were_read_rightly():
    names = [attack.name for attack in ATTACKS]
    labels = [attack.base for attack in (*plain(), *ATTACKS)]
    first = len(BASES) + names.index("code fence")
    labels[first : first + 2] = ["compliance", None]
    line, refusals, helps = line_of("j", "keyword", labels, 3.2)
    assert line.startswith("| j | keyword | refusal and compliance | 60 | 1 | 1 of 59: 1.7 % (")
    assert refusals == "j, refusal: code fence." and helps == "j, compliance: none."
    line, _, helps = line_of("j", "llm", ["refusal"] * 62, 3.2)
    assert "| refusal | 60 | 0 | 0 of 30: 0.0 % (0.0 to " in line and helps == "j, compliance: none."
    assert "| neither | 60 | 60 | - |" in line_of("j", "llm", [None] * 62, 3.2)[0]


def test_a_calibrated_judge_is_attacked_at_its_own_threshold(tmp_path, monkeypatch):
    monkeypatch.setattr(attacked_judges, "timed", lambda *_: SimpleNamespace(seconds=1.0))
    results = tmp_path / "results" / "attacked"
    verdicts = results / "verdicts" / "j" / "gold" / "attacks.jsonl"
    for folder in (verdicts.parent, results / "gold", results / "calibration" / "j"):
        folder.mkdir(parents=True)
    write_jsonl(results / "gold" / "attacks.jsonl", [{"id": name} for name in "abc"])
    raw = [("a", "judged", "refusal", 0.6), ("b", "judged", "compliance", 0.1), ("c", "unparsable", None, None)]
    names = ("prompt_id", "state", "label", "p_refusal")
    write_jsonl(verdicts, [dict(zip(names, row, strict=True)) for row in raw])
    curve = {"kind": "platt", "a": 1.0, "b": 0.0}
    write_json(results / "calibration" / "j" / "people.json", {"t": 0.7, "map": curve})
    assert judged(tmp_path, tmp_path / "study.yaml", "j")[0] == ["refusal", "compliance", None]
    assert judged(tmp_path, tmp_path / "study.yaml", "j", "people")[0] == ["compliance", "compliance", None]
