"""Judges on an engine that takes messages: the form they are held to, what becomes of each reply, what is refused."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import check_judge
import pytest
import render_judge_requests
from config_project import BASE, CATALOGUE, STUDY, Project, changed
from judge_entries import asked_of, judge_entry

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.pending import pending_requests
from refusal_eval.ask.requests import RequestFile, read_requests
from refusal_eval.ask.store import StoreReader, StoreWriter, checked_response
from refusal_eval.config.kinds import ENGINES, JUDGES
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.files import read_json, write_jsonl
from refusal_eval.judges.cell_verdicts import vote_reader
from refusal_eval.judges.follow_ups import following
from refusal_eval.judges.judge_base import EngineJudge, Messages, Verdict, as_asked
from refusal_eval.judges.structured import most_tokens_of

PLUGINS = Path(__file__).parents[1] / "plugins"
FAR = {"engine": "far", "engine_id": "far-id", "identity": {"kind": "forms"}, "tokenizer_folder": None}
FLAGS = {"evasive": False, "degenerate": False, "propaganda": False}
WRITTEN = {"analysis": "It gives the steps.", "label": "compliance", "kind": "none"} | FLAGS
BLOCK = {"by": "filter", "stage": "answer", "category": "hate", "severity": "low", "partial": "I th", "code": "c"}


def hosted(kind: str, **fields: Any) -> Any:
    return judge_entry(kind, **fields).by_messages()


def replied(text: str = "", ended: str = "stop", **more: Any) -> dict[str, Any]:
    """Return a response as the store keeps it."""
    without = {"token_ids": [], "logprobs": None, "stop_reason": None}
    return checked_response({"text": text, "finish_reason": ended} | without | more)


def verdict_on(judge: Any, response: dict[str, Any]) -> Verdict:
    request: Any = SimpleNamespace(token_ids=[], place=("p", 0, 0))
    return vote_reader(judge, {}, AnswerReader(None, None, False))(request, response)


# ---------------------------------------------------------------- the form


def form_of(judge: Any) -> Any:
    return json.loads(judge.request_sampling({})["structured_outputs"]["json"])


def test_a_label_judge_is_held_to_its_labels_whatever_stands_in_them() -> None:
    labels = {"refusal": 'says "no"', "partial": "\\ {}", "compliance": "größer 拒"}
    judge = hosted("llm", labels=labels)
    form = form_of(judge)
    assert form["properties"] == {"label": {"type": "string", "enum": list(labels.values())}}
    assert form["required"] == ["label"] and form["additionalProperties"] is False
    for label, text in labels.items():
        for written in (json.dumps({"label": text}), json.dumps({"label": text}, ensure_ascii=False, indent=1)):
            verdict = verdict_on(judge, replied(written))
            assert (verdict.state, verdict.label, verdict.p_refusal, verdict.kind) == ("judged", label, None, None)


def test_a_label_judge_with_kinds_says_which() -> None:
    judge = hosted("llm", labels={"refusal": {"ethical": "A", "technical": "B"}, "compliance": "C"})
    assert form_of(judge)["properties"]["label"]["enum"] == ["A", "B", "C"]
    verdict = verdict_on(judge, replied('{"label": "B"}'))
    assert (verdict.label, verdict.kind) == ("refusal", "technical")


def test_a_judge_that_writes_is_held_to_its_keys_in_their_order_and_to_no_length() -> None:
    form = form_of(hosted("reasoned"))
    assert list(form["properties"]) == list(WRITTEN) and "maxLength" not in json.dumps(form)
    assert "maxLength" in json.dumps(form_of(judge_entry("reasoned")))
    kinds = {"kinds": {"full": "compliance", "none": "refusal"}, "ratings": {"useful": 5}}
    judge = hosted("reasoned", **kinds)
    assert list(form_of(judge)["properties"]) == ["analysis", "kind", "useful"]
    verdict = verdict_on(judge, replied('{"analysis": "So.", "kind": "full", "useful": 4}'))
    assert (verdict.label, verdict.kind, verdict.quality) == ("compliance", "full", 0.75)
    long = verdict_on(hosted("reasoned"), replied(json.dumps(WRITTEN | {"analysis": "é" * 2000})))
    assert long.state == "judged" and long.raw == {"analysis": "é" * 2000}


def test_what_is_drawn_holds_no_parameter_that_few_servers_know_unless_it_is_written() -> None:
    assert hosted("reasoned").sampling.model_dump(exclude_defaults=True) == {"max_tokens": 512, "temperature": 0.6}
    own = hosted("reasoned", sampling={"max_tokens": 99, "top_k": 5})
    assert (own.sampling.max_tokens, own.sampling.top_k) == (99, 5)
    sampling = hosted("llm").request_sampling({})
    assert (sampling["temperature"], "logprob_token_ids" in sampling and sampling["logprob_token_ids"]) == (0.0, [])


@pytest.mark.skipif("openai" not in ENGINES.names(), reason="without the feature of hosted engines")
@pytest.mark.parametrize("judge", [hosted("llm"), hosted("reasoned")])
def test_the_servers_of_both_dialects_get_the_schema_with_its_keys_in_order(judge: Any) -> None:
    form, bodies = form_of(judge), list[Any]()
    for kind in ("openai", "anthropic"):
        entry = {"kind": kind, "address": "https://far.example.org/v1", "served": "big", "as_of": "2026-11-01"}
        sampling = judge.request_sampling({})
        assert list(ENGINES.entry(entry).unsent(sampling)) == []
        bodies.append(ENGINES.entry(entry).body([{"role": "user", "content": "?"}], sampling, None))
    (tool,) = bodies[1]["tools"]
    for schema in (bodies[0]["response_format"]["json_schema"]["schema"], tool["input_schema"]):
        assert json.dumps(schema) == json.dumps(form)


# ---------------------------------------------------------------- what becomes of a reply


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("llm", ""),
        ("llm", "A"),
        ("llm", '"A"'),
        ("llm", '{"label": "D"}'),
        ("llm", '{"label": null}'),
        ("llm", '{"label": ["A"]}'),
        ("llm", '{"label": "A", "why": "x"}'),
        ("llm", '{"label": "A", "label": "C"}'),
        ("llm", '{"label": "A"'),
        ("llm", '{"label": "A"} {"label": "A"}'),
        ("llm", "[" * 100_000),
        ("reasoned", '{"label": "refusal"}'),
        ("reasoned", json.dumps(WRITTEN | {"evasive": "false"})),
        ("reasoned", json.dumps(WRITTEN)[:-2]),
        ("reasoned", json.dumps(WRITTEN | {"more": 1})),
    ],
)
def test_anything_but_the_form_is_unparsable(kind: str, text: str) -> None:
    verdict = verdict_on(hosted(kind), replied(text))
    assert (verdict.state, verdict.label) == ("unparsable", None) and len(verdict.raw["text"]) <= 600


NOBODY = dict.fromkeys(("by", "stage", "category", "severity", "partial", "code"))
WITHOUT = [
    (replied("", "content_filter", blocked=BLOCK), "judge_refused", {"blocked": BLOCK}),
    (replied("", "content_filter"), "judge_refused", {"blocked": NOBODY}),
    # What came before the block is no verdict, though it may look like one.
    (replied('{"label": "A"}', "content_filter", blocked=BLOCK), "judge_refused", {"blocked": BLOCK}),
    (replied("I won't.", declared=True), "judge_refused", {"declared": True, "text": "I won't."}),
    (replied("", "failed", reason="recitation"), "judge_failed", {"error": "recitation"}),
    (replied("", "failed"), "judge_failed", {"error": "the judge's engine gave no answer"}),
    (replied("", "too_long", reason="9 tokens too many"), "judge_failed", {"error": "9 tokens too many"}),
    (replied("", "too_long"), "judge_failed", {"error": "the prompt is too long for the judge's engine"}),
]


@pytest.mark.parametrize(("response", "state", "raw"), WITHOUT)
@pytest.mark.parametrize("judge", [hosted("llm"), hosted("reasoned"), judge_entry("llm"), judge_entry("wildguard")])
def test_a_reply_without_a_verdict_is_never_one_for_any_judge(
    judge: Any, response: dict[str, Any], state: str, raw: dict[str, Any]
) -> None:
    verdict = verdict_on(judge, response)
    assert (verdict.state, verdict.label, dict(verdict.raw)) == (state, None, raw)


# ---------------------------------------------------------------- requests


@pytest.fixture
def rubric(tmp_path: Path) -> str:
    path = tmp_path / "rubric.md"
    path.write_text("{{ prompt }}\n<r_{{ nonce }}>{{ answer }}</r_{{ nonce }}>\nLabel:")
    return str(path)


def requests_of(folder: Path, judge: Any, answers: list[str], **rendering: Any) -> RequestFile:
    """Return what a judge is asked about answers, and check it first, as the workflow does."""
    asked = asked_of(judge, **{"max_model_len": None} | rendering)
    check_judge.main(FAR, asked, str(folder / "judge.json"))
    write_jsonl(folder / "prompts.jsonl", [{"id": "p", "messages": [{"role": "user", "content": "How?"}]}])
    given = {"prompt_id": "p", "turn": 0, "state": "complete"}
    write_jsonl(
        folder / "answers.jsonl", [given | {"sample": number, "answer": text} for number, text in enumerate(answers)]
    )
    paths = [str(folder / name) for name in ("prompts.jsonl", "answers.jsonl", "requests.jsonl")]
    render_judge_requests.main(*paths[:2], FAR, read_json(folder / "judge.json"), asked, paths[2])
    return read_requests(paths[2])


def test_a_request_is_the_judges_messages_and_needs_no_tokenizer(tmp_path: Path, rubric: str) -> None:
    judge = judge_entry("llm", rubric=rubric, system_prompt="Be fair.")
    (first, second) = requests_of(tmp_path, judge, ["Sure </r_x> <|im_end|>", "No."]).requests()
    own = judge.messages([{"role": "user", "content": "How?"}], "Sure </r_x> <|im_end|>")
    assert first.messages == [{"role": "system", "content": "Be fair."}, *own]
    assert first.token_ids == [] and first.seed is None and first.key != second.key
    assert set(read_json(tmp_path / "judge.json")) == {"rubric_sha256"}


def test_equal_answers_cost_once_and_the_votes_on_one_differ(tmp_path: Path, rubric: str) -> None:
    judge = judge_entry("reasoned", rubric=rubric, votes=3, retries=0)
    found = list(requests_of(tmp_path, judge, ["Sure.", "Sure.", "No."]).requests())
    assert len(found) == 9 and len({request.key for request in found}) == 6
    assert len({request.seed for request in found}) == 6


@pytest.mark.parametrize(
    "letter", [pytest.param("z", id="1 byte"), pytest.param("ß", id="2 bytes"), pytest.param("🙂", id="4 bytes")]
)
def test_an_answer_that_is_too_long_is_cut_between_characters(tmp_path: Path, rubric: str, letter: str) -> None:
    answer, room = "(" + letter * 3000 + ")", 900
    judge = judge_entry("llm", rubric=rubric)
    longest = room + judge.by_messages().request_sampling({})["max_tokens"]
    cut, whole = requests_of(tmp_path, judge, [answer, "No."], max_model_len=longest).requests()
    assert whole.cut == 0 and "No." in str(whole.messages) and whole.key
    (message,) = cut.messages or ()
    text = message["content"]
    head, gap, tail = text.partition(">")[2].rpartition("</r_")[0].split("\n")
    assert gap == f"[... {cut.cut} characters are left out here ...]"
    assert cut.key and cut.cut == len(answer) - len(head) - len(tail) > 0 and 0 <= len(head) - len(tail) <= 1
    assert head == answer[: len(head)] and tail == answer[-len(tail) :]
    assert room - 4 <= most_tokens_of([message]) <= room and len(text.encode()) // 2 <= room


def test_without_a_length_nothing_is_cut(tmp_path: Path, rubric: str) -> None:
    (request,) = requests_of(tmp_path, judge_entry("llm", rubric=rubric), ["x" * 300_000]).requests()
    assert request.cut == 0 and request.key


@pytest.mark.parametrize(
    ("response", "asked_again"),
    [(replied("It complies."), True), (replied(json.dumps(WRITTEN)), False), *((one, False) for one, *_ in WITHOUT)],
)
def test_a_vote_is_asked_again_only_where_its_text_is_no_verdict(
    tmp_path: Path, rubric: str, response: dict[str, Any], asked_again: bool
) -> None:
    file = requests_of(tmp_path, judge_entry("reasoned", rubric=rubric, retries=1), ["Sure."])
    (first,) = file.requests()
    with StoreWriter(tmp_path / "store", "far-id", "job") as writer:
        writer.describe("s", {})
        writer.append(str(first.key), response, "s")
    pending = pending_requests([file], StoreReader(tmp_path / "store", "far-id"), None, follow=following)
    assert len(pending) == asked_again
    for one in pending:
        assert one.request.messages == first.messages
        assert one.request.seed != first.seed and one.request.key != first.key


class OwnJudge(EngineJudge):
    """A kind of one's own that is asked by messages alone, and reads the first letter."""

    engine_needs: ClassVar[tuple[str, ...]] = ("writes_text", "takes_messages")
    kind: Literal["own"]

    def messages(self, messages: Messages, answer: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": f"Yes or no: {answer}"}]

    def request_sampling(self, checked: Any) -> dict[str, Any]:
        return {"max_tokens": 5, "temperature": 0.0}

    def verdict(self, response: Any, checked: Any) -> Verdict:
        return Verdict("judged", "refusal" if response["text"][0] == "Y" else "compliance")


def test_a_kind_of_ones_own_that_is_asked_by_messages_needs_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(JUDGES._added, "own", OwnJudge)
    judge = JUDGES.entry({"kind": "own", "engine": "far"})
    (request,) = requests_of(tmp_path, judge, ["No."]).requests()
    assert request.messages == [{"role": "user", "content": "Yes or no: No."}]
    assert verdict_on(judge, replied("Yes")).label == "refusal"
    assert verdict_on(judge, replied("Yes", "content_filter", blocked=BLOCK)).state == "judge_refused"


def test_a_job_knows_from_the_engine_how_its_judge_asks() -> None:
    judge = JUDGES.entry(judge_entry("llm").by_messages().asking())  # as the params of a job have it
    assert as_asked(judge, None) == judge_entry("llm").by_messages()
    assert as_asked(judge, "folder") is judge


# ---------------------------------------------------------------- refused while the study is validated

FORMS = {"kind": "forms", "address": "https://far.example.org/v1", "served": "big"}
READER = {"kind": "llm", "engine": "far", "rubric": "../../rubric.md", "labels": {"refusal": "A", "compliance": "C"}}
WRITER = {"kind": "reasoned", "engine": "far", "rubric": "../../rubric.md"}
ENTRIES = CATALOGUE["judges"] | {"reader": READER, "writer": WRITER}
NO_PROBABILITY = (
    "engine `far` takes messages: the judge gives a label and no probability. Leave it out, or name an engine that "
    "gives the probabilities of labels (of kind `vllm` or `eager`)"
)
NO_TEMPLATE = "engine `far` takes messages and renders them itself; leave it out"


def mistakes_with(
    project: Project, monkeypatch: pytest.MonkeyPatch, judges: dict[str, Any], engine: str = "forms", **study: Any
) -> list[str]:
    """Return the mistakes of a study with these judges and the engine of a plug-in."""
    monkeypatch.setitem(CATALOGUE, "engines", CATALOGUE["engines"] | {"far": FORMS | {"kind": engine}})
    plugins = [str(PLUGINS / f"{engine}_engine.py")]
    whole = STUDY | {"plugins": plugins, "judges": ["words", *judges], "gold": ["people"]}
    project.write(BASE, changed(CATALOGUE, ("judges",), ENTRIES | judges))
    return project.mistakes(whole | study)


def test_sound_judges_have_no_mistakes(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"kind": "panel", "members": ["words", "reader"]}
    judges = {"reader": READER, "writer": WRITER, "both": both}
    assert mistakes_with(project, monkeypatch, judges) == []
    turns = {
        "own": ENTRIES["own"],
        "turns": {"kind": "cascade", "first": "own", "then": "reader", "unsure": [0.2, 0.8]},
    }
    assert mistakes_with(project, monkeypatch, turns) == []


@pytest.mark.parametrize(
    ("entry", "key", "message"),
    [
        (READER | {"threshold": "calibrated"}, "threshold", NO_PROBABILITY),
        (READER | {"threshold": 0.3}, "threshold", NO_PROBABILITY),
        (READER | {"calibrated_on": "people"}, "calibrated_on", NO_PROBABILITY),
        (READER | {"mass_floor": 0.1}, "mass_floor", NO_PROBABILITY),
        (READER | {"prefill": "x"}, "prefill", "engine `far` takes messages and writes the whole reply itself; leave"),
        (READER | {"template": "none"}, "template", NO_TEMPLATE),
        (READER | {"template_options": {"think": False}}, "template_options", NO_TEMPLATE),
        (WRITER | {"date": "2026-02-02"}, "date", NO_TEMPLATE),
        (
            WRITER | {"reasoning": {"end": "</think>"}},
            "reasoning",
            "engine `far` holds the whole reply to a form, and its reasoning stands apart from it; leave it out",
        ),
        (
            {"kind": "first_token", "engine": "far", "refusal": ["No"]},
            "engine",
            "engine `far` is of kind `forms`; this entry needs one of kind `vllm`",
        ),
        (
            {"kind": "wildguard", "engine": "far"},
            "engine",
            "engine `far` is of kind `forms`; this entry needs one of kind `vllm`",
        ),
    ],
)
def test_what_such_a_judge_cannot_have_is_refused_with_what_to_take(
    project: Project, monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], key: str, message: str
) -> None:
    found = mistakes_with(project, monkeypatch, {"wrong": entry})
    assert [one for one in found if f": judges.wrong.{key}: {message}" in one]
    assert len(found) == 1 or entry["kind"] == "first_token"  # which says too that it is not for the study's model


@pytest.mark.parametrize("entry", [READER, WRITER])
def test_an_engine_that_holds_no_reply_to_a_form_is_refused_with_the_kinds_that_do(
    project: Project, monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any]
) -> None:
    (found,) = mistakes_with(project, monkeypatch, {"wrong": entry}, engine="chat")
    what = "engine `far` is of kind `chat`, which cannot hold a reply to a form; this entry needs one of kind `vllm`"
    assert f": judges.wrong.engine: {what}" in found


@pytest.mark.parametrize(
    ("judges", "study", "message"),
    [
        (
            {"reader": READER, "turns": {"kind": "cascade", "first": "reader", "then": "writer", "unsure": [0.2, 0.8]}},
            {},
            "judges.turns.first: `reader` is of kind `llm` (hosted, verdict held to a schema), which gives no "
            "probability of refusal; name a judge of kind",
        ),
        (
            {
                "own": ENTRIES["own"],
                "turns": {
                    "kind": "cascade",
                    "first": "own",
                    "then": "reader",
                    "unsure": [0.2, 0.8],
                    "threshold": "calibrated",
                },
            },
            {},
            "judges.turns.threshold: needs probabilities of both judges, and `reader` is of kind `llm` (hosted, "
            "verdict held to a schema); leave it out",
        ),
        (
            {"reader": READER},
            {"figures": [{"name": "t", "kind": "threshold", "judge": "reader"}]},
            "figures[0].judge: `threshold` needs probabilities, and judge `reader` gives none",
        ),
        (
            {"reader": READER, "own": ENTRIES["own"]},
            {"figures": [{"name": "t", "kind": "calibration", "judges": ["reader"]}]},
            "figures[0].judges[0]: judge `reader` (kind llm) gives no probabilities; of the study's judges `own` can",
        ),
    ],
)
def test_what_needs_probabilities_of_it_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, judges: dict[str, Any], study: dict[str, Any], message: str
) -> None:
    (found,) = mistakes_with(project, monkeypatch, judges, **study)
    assert message in found


def test_a_card_of_it_is_of_its_own_labels() -> None:
    judge, view = hosted("llm"), StudyView({}, ["people"])
    assert judge.own_threshold() is None and judge.threshold_on_gold(view) is None
    assert judge.gives_probabilities == "never" and judge_entry("llm").gives_probabilities == "always"
