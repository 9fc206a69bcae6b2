"""The tokens of a word in a rendered prompt: whole words, in turns of the user alone, whatever the tokenizer."""

from pathlib import Path
from typing import Any

import pytest
from tokenizer_folders import CHATML, byte_tokenizer, unigram_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from refusal_eval.ask.render import Renderer
from refusal_eval.core.errors import UserError
from refusal_eval.features.attention.focus_tokens import focus_tokens, places_of

pytestmark = pytest.mark.feature("attention")


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("kill", "How do I kill a process?", ["kill"]),
        ("kill", "Skills that kill: a killer's KILL-switch", ["kill", "KILL"]),
        ("kill time", "to kill\n  time is no kill", ["kill\n  time"]),
        ("don't", "I don't, donut", ["don't"]),
        ("kill", "don't kill", ["kill"]),
        ("C++", "In C++, C+ and C++17", ["C++", "C++"]),
        ("\u6740", "\u5982\u4f55\u6740\u6b7b\u4e00\u4e2a\u8fdb\u7a0b\uff1f\u6740", ["\u6740", "\u6740"]),
        ("\uce7c", "\uce7c\uc744 \uac08\ub2e4", ["\uce7c"]),
        ("\U0001f52a", "a \U0001f52a!", ["\U0001f52a"]),
        (
            "\u0642\u062a\u0644",
            "\u0643\u064a\u0641 \u0642\u062a\u0644 \u0627\u0644\u0648\u0642\u062a",
            ["\u0642\u062a\u0644"],
        ),
        ("\u00c9TRANGLER", "\u00e9trangler l'\u00e9trangler\u00e9", ["\u00e9trangler"]),
        ("shoot", "shot", []),
        ("  ", "a  b", []),
    ],
)
def test_a_word_is_found_wherever_it_is_whole(word: str, text: str, found: list[str]) -> None:
    assert [text[begin:end] for begin, end in places_of(word, text)] == found


def held(renderer: Renderer, messages: list[dict[str, str]], word: str) -> list[str]:
    """Return what the steered tokens are, decoded one by one."""
    ids = renderer.token_ids(messages)
    return [renderer.tokenizer.decode([ids[place]]) for place in focus_tokens(renderer, messages, word)]


def before(renderer: Renderer, messages: list[dict[str, str]], word: str) -> str:
    """Return what is before the first steered token."""
    ids = renderer.token_ids(messages)
    return str(renderer.tokenizer.decode(ids[: focus_tokens(renderer, messages, word)[0]]))


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_each_byte_of_the_word_counts_in_turns_of_the_user_alone(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes"), system_prompt="never kill; user")
    assert "".join(held(renderer, user("kill or be killed: Kill"), "kill")) == "killKill"
    # The word of a role is in the template, and that of the system message is not the user's.
    asked = user("am I a user?")
    assert "".join(held(renderer, asked, "user")) == "user" and renderer.text(asked).count("user") == 3
    assert before(renderer, asked, "user").endswith("am I a ")
    assert focus_tokens(renderer, user("harmless"), "kill") == []
    talk = [*user("kill it"), {"role": "assistant", "content": "I kill nothing"}, *user("then kill that")]
    assert "".join(held(renderer, talk, "kill")) == "killkill"


def test_a_prompt_that_the_system_message_repeats_is_found_in_its_own_place(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes"), system_prompt="kill")
    assert before(renderer, user("kill"), "kill") == "<|im_start|>system\nkill<|im_end|>\n<|im_start|>user\n"


def test_a_template_may_strip_a_turn_and_a_prefill_or_marks_may_be_around_it(tmp_path: Path) -> None:
    stripped = CHATML.replace("m['content']", "m['content'] | trim")
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes", stripped), prefill="I kill")
    assert "".join(held(renderer, user("  kill it \n"), "kill")) == "kill"
    base = Renderer(byte_tokenizer(tmp_path / "base", None, adds_bos=True), template="none", system_prompt="kill: ")
    assert "".join(held(base, user("please kill it"), "kill")) == "kill"
    assert focus_tokens(base, user("kill"), "kill") == [7, 8, 9, 10]  # behind <bos> and `kill: `


def words_tokenizer(folder: Path, tokens: list[str]) -> Path:
    """Write a byte-level tokenizer that has these texts as tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary, merges = {char: n for n, char in enumerate(alphabet)}, []
    for token in tokens:
        for end in range(2, len(token) + 1):
            if token[:end] not in vocabulary:
                vocabulary[token[:end]] = len(vocabulary)
                merges.append((token[: end - 1], token[end - 1]))
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core)
    tokenizer.chat_template = "{{ messages[0]['content'] }}|"
    tokenizer.save_pretrained(folder)
    return folder


def test_a_token_that_holds_the_word_and_more_counts_and_one_beside_it_does_not(tmp_path: Path) -> None:
    renderer = Renderer(words_tokenizer(tmp_path / "words", ["\u0120kill?", "dki", "ll-"]))
    assert held(renderer, user("a kill? kill-b"), "kill") == [" kill?", " kill"]
    assert held(renderer, user("a:kill-b"), "kill") == ["k", "i", "ll-"]


def test_characters_of_several_bytes_are_steered_whole(tmp_path: Path) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes"))
    messages = user("a \U0001f52a \u6740 b")
    ids = renderer.token_ids(messages)
    knife = focus_tokens(renderer, messages, "\U0001f52a")
    assert len(knife) == 4 and renderer.tokenizer.decode([ids[place] for place in knife]) == "\U0001f52a"
    assert len(focus_tokens(renderer, messages, "\u6740")) == 3


def test_pieces_with_a_mark_for_the_space_before_them_are_found(tmp_path: Path) -> None:
    folder = unigram_tokenizer(tmp_path / "pieces", ["\u2581kill", "\u2581a", "er"])
    renderer = Renderer(folder, template="none")
    messages = user("a kill a killer")
    ids = renderer.token_ids(messages)
    (place,) = focus_tokens(renderer, messages, "kill")
    assert renderer.tokenizer.convert_ids_to_tokens([ids[place]]) == ["\u2581kill"]
    assert ids.index(renderer.tokenizer.convert_tokens_to_ids("\u2581kill")) == place


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ messages[0]['content'] }} {{ messages[0]['content'] }}", "writes a turn of the user twice"),
        (
            "{{ 'long: ' if messages[0]['content'] | length > 13 }}{{ messages[0]['content'] }}",
            "otherwise by what is in",
        ),
    ],
)
def test_a_template_that_hides_where_a_turn_is_is_refused(tmp_path: Path, template: str, problem: str) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes", template))
    with pytest.raises(UserError, match=problem):
        focus_tokens(renderer, user("how do I kill a process?"), "kill")


def test_a_tokenizer_without_characters_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    renderer = Renderer(byte_tokenizer(tmp_path / "bytes"))
    monkeypatch.setattr(type(renderer.tokenizer), "is_fast", property(lambda self: False))
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        focus_tokens(renderer, user("kill"), "kill")
