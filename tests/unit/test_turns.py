"""Dialogues: each turn is asked with the model's own earlier answers, and resumed where the store ends."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import collect_answers
import pytest
import render_requests
from tokenizer_folders import byte_tokenizer
from transformers import PreTrainedTokenizerFast

from refusal_eval.ask import store
from refusal_eval.ask.pending import anything_missing, pending_requests
from refusal_eval.ask.requests import RequestFile, read_requests
from refusal_eval.ask.store import StoreReader, StoreWriter, when_stored
from refusal_eval.ask.turns import Turns, walk
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import read_jsonl, sha256_of_file, write_json, write_jsonl
from refusal_eval.core.packing import pack_floats
from refusal_eval.judges.follow_ups import following
from refusal_eval.study.dialogues import asked_turns, conversation, next_turn
from refusal_eval.tools.store.store_studies import later_keys

SCRIPT = [
    {"role": "user", "content": "Scene."},
    {"role": "user", "content": "First?"},
    {"role": "assistant", "content": "Given."},
    {"role": "user", "content": "Second?"},
    {"role": "user", "content": "Third?"},
]
PROMPT = {"id": "d1", "messages": SCRIPT, "dialogue": True, "source": {"file": "f", "row": 1}}
PLAIN = {"id": "p1", "messages": [{"role": "user", "content": "Alone?"}], "source": {"file": "f", "row": 2}}
REQUEST: dict[str, Any] = {
    "template": "default",
    "template_options": {},
    "system_prompt": "Be brief.",
    "date": "2026-01-01",
    "trust_remote_code": False,
    "max_model_len": 4096,
    "determinism": "seeded",
    "sampling": {"max_tokens": 50, "temperature": 1.0},
    "samples": 2,
    "seed": 7,
    "dialogue": {"reasoning": None},
}


def response(text: str, finish: str = "stop") -> dict[str, Any]:
    ids = list(text.encode()) + ([258] if finish == "stop" else [])
    logprobs = pack_floats([-0.5] * len(ids))
    reason = 258 if finish == "stop" else None
    return {"text": text, "token_ids": ids, "logprobs": logprobs, "finish_reason": finish, "stop_reason": reason}


class Cell:
    """One cell with a store of its own."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder, self.store_dir = folder, folder / "store"
        self.tokenizer = str(byte_tokenizer(folder / "model"))
        (folder / "model" / "config.json").write_text('{"eos_token_id": 258}')
        write_jsonl(folder / "prompts.jsonl", [PROMPT, PLAIN])
        engine = {"engine_id": "e", "identity": {"x": 1}, "tokenizer_folder": self.tokenizer}
        self.requests = folder / "requests" / "m" / "s.jsonl"
        render_requests.main(str(folder / "prompts.jsonl"), engine, REQUEST | changes, str(self.requests))

    @property
    def file(self) -> RequestFile:
        return read_requests(self.requests)

    def pending(self, shard: int = 0, shards: int = 1) -> list[Any]:
        return pending_requests(
            [self.file], StoreReader(self.store_dir, "e"), self.tokenizer, shard, shards, follow=following
        )

    def answer(self, items: list[Any], finish: str = "stop", **more: Any) -> None:
        with StoreWriter(self.store_dir, "e", "job") as writer:
            for item in items:
                request = item.request
                text = f"{request.prompt_id}.{request.sample}.{request.turn}" if finish == "stop" else ""
                writer.append(request.key, response(text, finish) | more, "s1")

    def text(self, item: Any) -> str:
        return str(PreTrainedTokenizerFast.from_pretrained(self.tokenizer).decode(item.request.token_ids))

    def answers(self, receipts: list[str]) -> list[dict[str, Any]]:
        out = self.folder / "answers.jsonl"
        files = SimpleNamespace(requests=str(self.requests), receipts=receipts)
        how = {"reasoning": None, "trust_remote_code": False}
        collect_answers.main(files, str(self.store_dir), self.tokenizer, how, str(out))
        return list(read_jsonl(out))


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path)


def test_turns_with_a_given_reply_are_not_asked():
    assert asked_turns(PROMPT) == [0, 2, 3]
    assert asked_turns(PLAIN) == [0]
    assert conversation(PROMPT, 2, {0: "Ok."}) == [SCRIPT[0], {"role": "assistant", "content": "Ok."}, *SCRIPT[1:4]]


def test_a_dialogue_is_over_after_its_last_turn_or_a_turn_without_text():
    assert next_turn(PROMPT, {}) == 0
    assert next_turn(PROMPT, {0: "complete"}) == 2
    assert next_turn(PROMPT, {0: "complete", 2: "empty"}) is None
    assert next_turn(PROMPT, {0: "complete", 2: "truncated", 3: "complete"}) is None


def test_a_later_turn_is_asked_with_the_models_own_answers_and_a_seed_of_its_own(cell: Cell) -> None:
    seeds, keys = set(), set()
    for turns_left, turn in ((3, 0), (2, 2), (1, 3)):
        items = [item for item in cell.pending() if item.request.prompt_id == "d1"]
        assert [(item.turns_left, item.request.turn) for item in items] == [(turns_left, turn)] * 2
        seeds |= {item.request.seed for item in items}
        keys |= {item.request.key for item in items}
        if turn == 3:
            text = cell.text(items[1])
            parts = ("Scene.", "d1.1.0", "First?", "Given.", "Second?", "d1.1.2", "Third?")
            order = [text.index(part) for part in parts]
            assert order == sorted(order) and "d1.0." not in text
        cell.answer(items)
    assert len(seeds) == len(keys) == 6
    assert {item.request.prompt_id for item in cell.pending()} == {"p1"}


def test_what_is_asked_next_can_be_told_from_the_responses_alone(cell: Cell) -> None:
    turns = Turns(cell.file, cell.tokenizer)
    first = next(cell.file.requests())
    second = turns.next_request([(first, response("Hm."))])
    assert second is not None and second.turn == 2
    assert turns.next_request([(first, response("Hm."))]) == second
    assert turns.next_request([(first, response("Other."))]).key != second.key  # type: ignore[union-attr]
    assert turns.next_request([(first, response("", "stop"))]) is None


def test_responses_that_are_seen_late_are_waited_for(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on network file systems; the jobs that collect them look again before they say that the store was pruned."""
    monkeypatch.setattr(store, "LATE_SECONDS", (0.0, 0.0))
    looks = []

    def look() -> list[dict[str, Any]]:
        looks.append(len(looks))
        while len(looks) == 2 and (pending := cell.pending()):
            cell.answer(pending)
        return cell.answers([])

    assert {row["state"] for row in when_stored(look)} == {"complete"} and len(looks) == 2
    next(cell.store_dir.rglob("*.jsonl")).unlink()
    looks += [0, 0]
    with pytest.raises(UserError, match="not in the store, although executed before"):
        when_stored(look)
    assert len(looks) == 2 + 2 + 3


@pytest.mark.parametrize(
    "script",
    [
        "collect_answers",
        "collect_verdicts",
        "train_judge",
        pytest.param("published_answers", marks=pytest.mark.feature("published")),
    ],
)
def test_every_job_that_collects_responses_looks_again(repository: Path, script: str) -> None:
    assert "when_stored(lambda: main(" in (repository / "scripts" / f"{script}.py").read_text()


@pytest.mark.feature("published")
def test_a_response_that_is_gone_is_missed_where_it_is_read_as_the_published_code_does(cell: Cell) -> None:
    import published_answers

    while cell.pending():
        cell.answer(cell.pending())
    cell.answers([])
    out, reading = cell.folder / "published.jsonl", {"end_mark": None, "trust_remote_code": False}
    where = str(cell.requests), str(cell.folder / "answers.jsonl")
    published_answers.main(*where, str(cell.store_dir), str(cell.tokenizer), reading, str(out))
    whole = out.read_bytes()
    lost = max(cell.store_dir.rglob("*.jsonl"))
    lost.unlink()
    with pytest.raises(UserError, match="responses are not in the store"):
        published_answers.main(*where, str(cell.store_dir), str(cell.tokenizer), reading, str(out))
    assert out.read_bytes() == whole


def test_a_request_that_the_engine_refused_becomes_a_failed_answer(cell: Cell) -> None:
    refused, *others = [item for item in cell.pending() if item.request.prompt_id == "p1"]
    while pending := [item for item in cell.pending() if item.request.key != refused.request.key]:
        cell.answer(pending)
    with pytest.raises(UserError, match="1 of 4 responses are not in the store"):
        cell.answers([])
    receipt = cell.folder / "receipt.json"
    write_json(receipt, {"rejected": [{"key": refused.request.key, "status": 400, "message": "too many images"}]})
    rows = [row for row in cell.answers([str(receipt)]) if row["prompt_id"] == "p1"]
    assert [(row["sample"], row["state"], row["answer"]) for row in rows] == [
        (0, "failed", ""),
        *((item.request.sample, "complete", f"p1.{item.request.sample}.0") for item in others),
    ]


def test_answers_have_a_row_per_turn(cell: Cell) -> None:
    for version in ("big-1", "big-2", None):
        cell.answer(cell.pending(), model_version=version)
    rows = cell.answers([])
    places = [(row["prompt_id"], row["sample"], row["turn"]) for row in rows]
    dialogue = [("d1", sample, turn) for sample in (0, 1) for turn in (0, 2, 3)]
    assert places == [*dialogue, ("p1", 0, 0), ("p1", 1, 0)]
    assert [row["answer"] for row in rows[:3]] == ["d1.0.0", "d1.0.2", "d1.0.3"]
    assert [row.get("model_version") for row in rows[:3]] == ["big-1", "big-2", None]
    assert {row["state"] for row in rows} == {"complete"}


def test_responses_are_looked_up_in_parts_whatever_their_number(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    while items := cell.pending():
        cell.answer(items)
    whole = cell.answers([])
    looked_up, lookup = list[int](), StoreReader.lookup

    def counted(self: StoreReader, keys: Any) -> Any:
        wanted = list(keys)
        looked_up.append(len(wanted))
        return lookup(self, wanted)

    monkeypatch.setattr(StoreReader, "lookup", counted)
    monkeypatch.setattr("refusal_eval.ask.turns.AT_ONCE", 3)
    assert cell.answers([]) == whole
    # Three chains, of which two are dialogues of three turns, and the last one; nothing follows either.
    assert looked_up == [3, 2, 2, 0, 1, 0]


def test_a_dialogue_that_ended_early_has_its_other_turns_as_failed(cell: Cell) -> None:
    cell.answer(cell.pending())
    cell.answer(cell.pending(), finish="length")  # turn 2 comes back empty
    assert cell.pending() == []
    states = [row["state"] for row in cell.answers([]) if row["prompt_id"] == "d1"]
    assert states == ["complete", "empty", "failed"] * 2


def test_a_dialogue_that_grows_too_long_says_so(tmp_path: Path) -> None:
    first = max(len(item.request.token_ids) for item in Cell(tmp_path / "long").pending())
    cell = Cell(tmp_path / "short", max_model_len=first + 50 + 5)
    cell.answer(cell.pending())
    assert cell.pending() == []
    states = [row["state"] for row in cell.answers([]) if row["prompt_id"] == "d1"]
    assert states == ["complete", "too_long", "failed"] * 2


def test_a_template_file_that_writes_earlier_answers_in_another_way_makes_another_request_file(tmp_path: Path) -> None:
    """Else a load that is stopped leaves nothing by which the next run sees that its later turns are old."""
    template, files, keys = tmp_path / "own.jinja", set(), set()
    for way in ("{{ m.content }}", "<answer>{{ m.content }}"):
        text = "{% for m in messages %}{% if m.role == 'assistant' %}" + way + "{% else %}{{ m.content }}{% endif %}"
        template.write_text(text + "{% endfor %}{% if add_generation_prompt %}>{% endif %}")
        cell = Cell(tmp_path / "cell", template=str(template), template_sha256=[sha256_of_file(template)])
        files.add(cell.requests.read_bytes())
        keys.add(tuple(cell.file.keys()))
        cell.answer(cell.pending())
    assert len(files) == 2 and len(keys) == 1  # the first turn is written as it was
    assert "template_sha256" not in Cell(tmp_path / "other", template_sha256=[]).file.header["dialogue"]["rendering"]


def test_later_turns_are_not_asked_by_a_template_file_that_was_edited_meanwhile(tmp_path: Path) -> None:
    template = tmp_path / "own.jinja"
    text = "{% for m in messages %}{{ m.content }}{% endfor %}"
    template.write_text(text)
    cell = Cell(tmp_path / "cell", template=str(template), template_sha256=[sha256_of_file(template)])
    template.write_text(text + "!")
    with pytest.raises(UserError, match=r"own\.jinja has changed since this run was planned; run again"):
        cell.pending()
    template.write_text(text)
    assert cell.pending()


def test_the_store_is_asked_for_later_turns_too(cell: Cell) -> None:
    def missing() -> bool:
        return anything_missing([str(cell.requests)], str(cell.store_dir), cell.tokenizer, 0, 1, follow=following)

    for _ in range(3):
        assert missing()
        cell.answer(cell.pending())
    assert not missing()
    assert all(chain.next is None for chain in walk(Turns(cell.file, cell.tokenizer), StoreReader(cell.store_dir, "e")))


def test_the_keys_of_all_turns_that_were_answered_are_known_to_be_asked_for(cell: Cell, tmp_path: Path) -> None:
    config = {
        "results_dir": tmp_path / "results",
        "study": "s",
        "store_dir": cell.store_dir,
        "cache_dir": "",
        "shards": 1,
    }
    engine = {"engine_id": "e", "tokenizer_folder": cell.tokenizer}
    write_json(tmp_path / "results" / "s" / "engines" / "engine.json", engine)
    assert later_keys(config, cell.file, "e") == set(cell.file.keys())
    cell.answer(cell.pending())
    second = {item.request.key for item in cell.pending()}
    cell.answer(cell.pending())
    found = later_keys(config, cell.file, "e")
    assert len(second) == 2 and second < found and len(found) == 4 + 2 + 2  # two samples; one prompt has three turns
    with pytest.raises(StopIteration):
        later_keys(config, cell.file, "another")


def test_all_turns_of_a_dialogue_belong_to_one_shard(cell: Cell) -> None:
    owners: dict[tuple[str, int], set[int]] = {}
    for _ in range(3):
        for shard in range(3):
            for item in cell.pending(shard, 3):
                owners.setdefault((item.request.prompt_id, item.request.sample), set()).add(shard)
        cell.answer(cell.pending())
    assert len(owners) == 4 and all(len(shards) == 1 for shards in owners.values())
