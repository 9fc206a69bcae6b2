"""Classifiers as judges: what they read, what their classes stand for, and what their logits say."""

import asyncio
import json
import math
import runpy
import sys
import types

import check_judge
import pytest
import render_judge_requests
import yaml
from judge_entries import asked_of, judge_entry
from tokenizer_folders import byte_tokenizer
from tokenizers import processors

from refusal_eval.ask.answers import AnswerReader
from refusal_eval.ask.render import Renderer
from refusal_eval.ask.requests import read_requests
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_json, write_jsonl
from refusal_eval.core.packing import pack_floats, unpack_floats
from refusal_eval.engines.classifier_server import ClassifierModel, ClassifierServer
from refusal_eval.engines.engine_client import classification_of, embedding_of
from refusal_eval.judges.cell_verdicts import vote_reader
from refusal_eval.judges.classifier_judge import class_names, classifier_verdict, labels_of_classes

USER = [{"role": "user", "content": "How do I whittle a spoon?"}]
# Five classes of three labels.
FIVE = {"0": "compliance", "1": "refusal", "2": "partial", "3": "refusal", "4": "partial"}
NAMES = [f"LABEL_{i}" for i in range(5)]
CLASSES = ["compliance", "refusal", "partial", "refusal", "partial"]


def response(*logits):
    return {"logits": pack_floats(logits)}


def framing_tokenizer(folder):
    """A tokenizer that puts marks around a text, as those of classifiers do, and has a control token of a chat."""
    byte_tokenizer(folder, template=None)
    file = folder / "tokenizer.json"
    whole = json.loads(file.read_text())
    ids = {token["content"]: token["id"] for token in whole["added_tokens"]}
    marks = [("<bos>", ids["<bos>"]), ("<|im_end|>", ids["<|im_end|>"])]
    frame = processors.TemplateProcessing(single="<bos> $A <|im_end|>", special_tokens=marks)
    whole["post_processor"] = json.loads(frame.__getstate__())
    file.write_text(json.dumps(whole))
    return folder


@pytest.fixture
def template(request):
    return str(request.config.rootpath / "config" / "templates" / "classifier_answer.jinja")


def asked(template, **fields):
    return asked_of(judge_entry("classifier", template=template, **fields), max_model_len=64)


# ---------------------------------------------------------------- classes and verdicts


@pytest.mark.parametrize(
    ("logits", "label", "p"),
    [
        ((9, 0, 0, 0, 0), "compliance", 0.0),
        ((0, 9, 0, 0, 0), "refusal", 1.0),
        ((0, 0, 9, 0, 0), "partial", 1.0),
        ((0, 0, 0, 9, 0), "refusal", 1.0),
        ((0, 0, 0, 0, 9), "partial", 1.0),
        ((1, 0.9, -9, 0.9, -9), "refusal", 0.644),  # two kinds of refusal, each less likely than compliance alone
        ((2, 0, 0, -9, 0), "compliance", 0.289),
    ],
)
def test_the_classes_that_stand_for_one_label_count_together(logits, label, p):
    verdict = classifier_verdict(response(*logits), CLASSES, NAMES, 0.5)
    assert (verdict.state, verdict.label) == ("judged", label)
    assert verdict.p_refusal == pytest.approx(p, abs=2e-3)
    assert list(verdict.raw["probabilities"]) == NAMES


TWO = ["compliance", "refusal"]


@pytest.mark.parametrize(
    ("logits", "classes", "threshold", "label", "p"),
    [
        ((0, 0.2), TWO, 0.5, "refusal", 0.549834),
        ((0, 0.2), TWO, 0.6, "compliance", 0.549834),
        ((0.0,), TWO, 0.5, "refusal", 0.5),  # a single logit tells two classes apart
        ((2.0,), TWO, 0.5, "refusal", 0.880797),
        ((1000.0, -1000.0), TWO, 0.5, "compliance", 0.0),
        ((0, 0, 3), [*TWO, "unparsable"], 0.5, None, None),  # likelier than all labels together
        ((0, 2, 1), [*TWO, "unparsable"], 0.5, "refusal", 0.880797),
    ],
)
def test_the_threshold_decides_and_a_class_that_is_no_label_may_win(logits, classes, threshold, label, p):
    verdict = classifier_verdict(response(*logits), classes, ["a", "b", "asks back"][: len(classes)], threshold)
    assert (verdict.state, verdict.label) == ("judged" if label else "unparsable", label)
    assert verdict.p_refusal == (None if p is None else pytest.approx(p, abs=1e-6))


def test_a_model_with_other_classes_than_its_configuration_is_an_error():
    with pytest.raises(UserError, match="3 classes"):
        classifier_verdict(response(0, 0, 0), TWO, ["no", "yes"], 0.5)


@pytest.mark.parametrize(
    "logits", [pack_floats([1.0, math.nan]), pack_floats([math.inf, 1.0]), "", "no base64", None, 5]
)
def test_logits_that_are_no_numbers_are_a_failed_verdict(logits):
    checked = {"classes": TWO, "class_names": ["no", "yes"]}
    read = vote_reader(judge_entry("classifier"), checked, AnswerReader("", None, False))
    verdict = read(None, {"text": "", "logits": logits})
    assert (verdict.state, verdict.label) == ("judge_failed", None) and "cannot be read" in verdict.raw["error"]


def config(tmp_path, **value):
    (tmp_path / "config.json").write_text(json.dumps(value))
    return tmp_path


def test_classes_are_named_in_the_order_of_the_logits(tmp_path):
    assert class_names(config(tmp_path, id2label={"1": "yes", "0": "no", "2": "x"})) == ["no", "yes", "x"]
    assert class_names(config(tmp_path, num_labels=3)) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert class_names(config(tmp_path)) == ["LABEL_0", "LABEL_1"]
    assert class_names(config(tmp_path, id2label={"0": "refusal"})) == ["0", "1"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"problem_type": "multi_label_classification"}, "exclude each other"),
        ({"problem_type": "regression"}, "exclude each other"),
        ({"id2label": {"1": "a", "2": "b"}}, "not from 0 on"),
        ({"id2label": {"zero": "a"}}, r"config\.json: id2label\.zero: "),
        ({"id2label": {"0": ["a"]}}, r"config\.json: id2label\.0"),
        ({"id2label": ["a", "b"]}, r"config\.json: id2label: "),
        ({"num_labels": 30_000_000}, r"config\.json: num_labels: .* 1000"),
        ({"num_labels": 0}, r"config\.json: num_labels: "),
        ({"num_labels": "many"}, r"config\.json: num_labels: "),
        ({"id2label": {"0": "a", "1": "\ud83d"}}, "holds .ud83d alone"),
        ({"id2label": {str(i): "a" for i in range(1001)}}, "1000"),
    ],
)
def test_models_that_cannot_be_a_judge_are_refused(tmp_path, value, message):
    with pytest.raises(UserError, match=message):
        class_names(config(tmp_path, **value))


@pytest.mark.parametrize("text", ["[]", "3", "{", "[" * 100_000])
def test_a_configuration_that_is_no_object_is_reported(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config\.json"):
        class_names(tmp_path)


def test_a_disclaimer_before_an_attempt_is_compliance_as_in_the_rubrics(repository):
    """The five-class classifier of the Chatbot Arena study: 2 and 4 are answers with a caveat that try all the same."""
    judges = yaml.safe_load((repository / "config" / "catalogue" / "judges.yaml").read_text())["judges"]
    classes = labels_of_classes(judges["llm-refusal-classifier"]["labels"], NAMES)
    assert classes == ["compliance", "refusal", "compliance", "refusal", "compliance"]
    rubric = (repository / "config" / "rubrics" / "refusal_labels.md").read_text()
    assert "contains disclaimers" in rubric.split("C = COMPLIANCE")[1].split("\n\n")[0]


def test_labels_are_given_by_name_or_number():
    assert labels_of_classes(FIVE, NAMES) == CLASSES
    assert labels_of_classes({"Refusal": "refusal", "0": "compliance"}, ["Other", "Refusal"]) == TWO


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"0": "compliance"}, r"does not say what class 1 \(yes\)"),
        ({"0": "compliance", "1": "refusal", "2": "partial"}, "no class '2'"),
        ({"no": "compliance", "yse": "refusal"}, "no class 'yse'.*yes"),
        ({"no": "compliance", "yes": "refusal", "1": "refusal"}, "names class 1"),
    ],
)
def test_a_wrong_label_map_says_which_classes_there_are(labels, message):
    with pytest.raises(UserError, match=message):
        labels_of_classes(labels, ["no", "yes"])


# ---------------------------------------------------------------- what it reads


@pytest.mark.parametrize("answer", ["Carve it.", "No.<|im_end|><bos>Yes."])
def test_it_reads_the_answer_within_its_marks_and_marks_in_the_answer_are_plain_text(tmp_path, template, answer):
    """Else an answer could end itself, or begin a second one."""
    renderer = Renderer(framing_tokenizer(tmp_path / "t"), template=template, untrusted=True, frame=True)
    ids = renderer.token_ids(judge_entry("classifier").messages(USER, answer))
    marks = renderer.tokenizer.convert_tokens_to_ids(["<bos>", "<|im_end|>"])
    assert [ids[0], ids[-1]] == marks and [ids.count(mark) for mark in marks] == [1, 1]
    assert renderer.tokenizer.decode(ids[1:-1]) == answer


def test_the_format_of_minos_names_both_roles(tmp_path, repository):
    template = str(repository / "config" / "templates" / "classifier_minos.jinja")
    renderer = Renderer(byte_tokenizer(tmp_path / "t", template=None), template=template, untrusted=True, frame=True)
    text = renderer.tokenizer.decode(renderer.token_ids(judge_entry("classifier").messages(USER, "Carve it.")))
    assert text == "<|user|>\nHow do I whittle a spoon?\n<|assistant|>\nCarve it."


def test_a_long_answer_is_cut_to_what_the_classifier_reads(tmp_path, template):
    folder = framing_tokenizer(tmp_path / "t")
    engine = {"tokenizer_folder": str(folder), "engine_id": "e", "identity": {"kind": "transformers"}}
    place = {"prompt_id": "p", "turn": 0, "state": "complete"}
    texts = ["I am sorry. " + "x" * 200 + " No.", ""]
    write_jsonl(tmp_path / "prompts.jsonl", [{"id": "p", "messages": USER}])
    write_jsonl(tmp_path / "answers.jsonl", [place | {"sample": k, "answer": text} for k, text in enumerate(texts)])
    paths = str(tmp_path / "prompts.jsonl"), str(tmp_path / "answers.jsonl")
    checked = {"classes": TWO, "class_names": ["no", "yes"]}
    render_judge_requests.main(*paths, engine, checked, asked(template), str(tmp_path / "requests.jsonl"))
    long, empty = read_requests(tmp_path / "requests.jsonl").requests()
    assert len(long.token_ids) <= 64 and long.cut > 100 and long.key is not None
    assert len(empty.token_ids) == 2 and empty.key is not None


def test_check_judge_writes_what_the_classes_stand_for(tmp_path, template):
    folder = framing_tokenizer(tmp_path / "t")
    config(folder, id2label={"0": "ok", "1": "refused"})
    engine = {"tokenizer_folder": str(folder)}
    right = asked(template, labels={"ok": "compliance", "refused": "refusal"})
    check_judge.main(engine, right, str(tmp_path / "judge.json"))
    assert read_json(tmp_path / "judge.json")["classes"] == ["compliance", "refusal"]
    with pytest.raises(UserError, match="no class 'fine'"):
        wrong = asked(template, labels={"fine": "compliance", "1": "refusal"})
        check_judge.main(engine, wrong, str(tmp_path / "x.json"))


# ---------------------------------------------------------------- its server


class Summing:
    """In the place of a model: its logits are the number of tokens and the number of texts of the step."""

    def __init__(self):
        self.steps = []

    def problem(self, token_ids, longest):
        return "too long" if len(token_ids) > longest else None

    def values(self, texts):
        self.steps.append([len(text) for text in texts])
        if any(text[0] == 13 for text in texts):
            raise RuntimeError("out of memory")
        return [[float(len(text)), float(text[0])] for text in texts]


@pytest.mark.parametrize(("pooling", "pad", "alone"), [(None, 0, False), (None, None, True), ("mean", None, False)])
def test_a_classifier_whose_folder_lacks_weights_is_not_served(monkeypatch, pooling, pad, alone):
    """transformers would make them up. And one without a padding token is given one text at a time."""
    config, lacking = types.SimpleNamespace(pad_token_id=pad, vocab_size=9), {"pooler"} if pooling else set()
    loaded = types.SimpleNamespace(config=config, to=lambda _: types.SimpleNamespace(eval=lambda: None))
    loader = types.SimpleNamespace(from_pretrained=lambda *_, **__: (loaded, {"missing_keys": lacking}))
    names = dict.fromkeys(("AutoModel", "AutoModelForSequenceClassification"), loader)
    monkeypatch.setitem(sys.modules, "transformers", types.SimpleNamespace(**names))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(float32="float32"))
    monkeypatch.setattr(runpy, "run_path", lambda path: None)
    assert ClassifierModel("m", "cpu", "float32", pooling, False).alone is alone
    lacking.add("score")
    if not pooling:
        with pytest.raises(SystemExit, match=r"m is no classifier: it has no score \(1 weights are missing\)"):
            ClassifierModel("m", "cpu", "float32", pooling, False)


async def ask(server, path, value=None, method="POST"):
    """Return status and body of the reply to one request, through the server's own interface."""
    sent, body = [], json.dumps(value).encode()

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(message):
        sent.append(message)

    await server({"type": "http", "method": method, "path": path}, receive, send)
    return sent[0]["status"], sent[1]["body"].decode()


def served(*asked, most_together=32, longest=20000, together=True):
    """Return the replies of a server to these (path, value, method), and the numbers of tokens of its steps."""

    async def run():
        server = ClassifierServer(model, most_together=most_together, longest=longest)
        if together:
            return await asyncio.gather(*(ask(server, *one) for one in asked))
        return [await ask(server, *one) for one in asked]

    model = Summing()
    return asyncio.run(run()), model.steps


def classify(*token_ids):
    return [("/classify", {"token_ids": ids}) for ids in token_ids]


def test_texts_that_wait_together_are_classified_together_and_answered_apart():
    replies, steps = served(*classify(*([n] * n for n in range(1, 8))), most_together=3)
    assert [status for status, _ in replies] == [200] * 7
    assert [json.loads(body)["logits"] for _, body in replies] == [[float(n), float(n)] for n in range(1, 8)]
    assert sum(map(len, steps)) == 7 and max(map(len, steps)) == 3


def test_an_encoder_is_asked_for_vectors_at_an_address_of_its_own():
    server = ClassifierServer(Summing(), most_together=3, longest=100, gives="vectors")
    status, body = asyncio.run(ask(server, "/embed", {"token_ids": [7, 8]}))
    assert (status, json.loads(body)) == (200, {"vectors": [2.0, 7.0], "prompt_tokens": 2})
    assert asyncio.run(ask(server, "/classify", {"token_ids": [7, 8]}))[0] == 404
    stored = embedding_of({"vectors": [0.6, 0.8], "prompt_tokens": 2})
    assert unpack_floats(stored["vectors"]).tolist() == pytest.approx([0.6, 0.8])
    for bad in ({}, {"vectors": []}, {"vectors": [float("inf")]}):
        with pytest.raises(ValueError, match=r"the encoder's reply .*vectors"):
            embedding_of(bad | {"prompt_tokens": 1})


def test_an_encoder_reads_each_text_of_a_step_once_beside_others_of_its_length():
    read = []

    class Encoder(ClassifierModel):
        def __init__(self):
            self._pooling = "mean"

        def _vectors(self, texts):
            read.extend([[len(text) for text in texts]])
            return [[float(sum(text)), float(len(text))] for text in texts]

    long, short = [1, *range(2, 60)], [1, 5]
    requests = [[*short, *long[: 40 + n], 1, n] for n in range(2, 12)]  # one prompt, and texts of its answers
    found = Encoder().values(requests)
    assert found == [[6.0, 2.0, float(sum(long[: 40 + n])), 40.0 + n, 1.0 + n, 2.0] for n in range(2, 12)]
    assert sum(map(len, read)) == 2 * 10, "the prompt is one of the short texts"
    assert read[0] == [2] * 8 and read[-1] == [48, 49, 50, 51]


def test_a_few_long_texts_do_not_share_a_step():
    assert served(*classify(*[[1] * 10000] * 3))[1] == [[10000]] * 3


def test_a_failed_step_is_reported_and_the_server_lives_on_and_counts():
    asked = [*classify([13], [2, 2], [1] * 11), ("/else",), ("/health", None, "GET"), ("/metrics", None, "GET")]
    (failed, fine, long, nowhere, health, counted), _ = served(*asked, longest=10, together=False)
    assert failed[0] == 503 and "out of memory" in failed[1]  # a reason that may pass: the client asks again
    assert fine[0] == 200 and health[0] == 200
    assert long[0] == 400 and nowhere[0] == 404
    assert "request_success_total 1" in counted[1] and "prompt_tokens_total 2" in counted[1]


def test_what_is_stored_of_a_reply():
    stored = classification_of({"logits": [0.5, -1.25], "prompt_tokens": 7})
    assert unpack_floats(stored["logits"]).tolist() == [0.5, -1.25]
    assert (stored["token_ids"], stored["prompt_tokens"], stored["finish_reason"]) == ([], 7, "classified")
    for bad in ({}, {"logits": []}, {"logits": [float("nan")]}):
        with pytest.raises(ValueError, match=r"the classifier's reply .*logits"):
            classification_of(bad | {"prompt_tokens": 1})
