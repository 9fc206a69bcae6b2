"""The page: one file, nothing loaded, no text of a model ever markup, and nothing that says which model it was."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from audit_rows import JUDGES, MODELS, NASTY, take, write_study

from refusal_eval.__main__ import main
from refusal_eval.features.labelling.rater_files import LANGUAGES, page, read_first, words_in
from refusal_eval.program.offline_page import embed


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.raw, self._open = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs)) if tag in ("script", "style") else None

    def handle_data(self, data):
        if self._open:
            self.raw.append((*self._open, data))

    def handle_endtag(self, tag):
        self._open = None


def rows_of(*answers):
    return [
        {"id": f"{i:016x}", "messages": [{"role": "user", "content": a}], "answer": a} for i, a in enumerate(answers)
    ]


def test_hostile_texts_are_data_and_nothing_else():
    made = Elements(page("aud", "rater_1", rows_of(*NASTY)))
    plain = Elements(page("aud", "rater_1", rows_of(*["x"] * len(NASTY))))
    assert [tag for tag, _ in made.tags] == [tag for tag, _ in plain.tags]
    (data,) = [json.loads(text) for tag, attrs, text in made.raw if attrs.get("type") == "application/json"]
    assert data["rows"][0]["answer"] == NASTY[0]
    assert data["rows"][9]["answer"] == NASTY[9]


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "\u2028", "&amp;", "\ud83d"])
def test_embedded_json_holds_no_character_that_ends_an_element(text):
    assert not re.search(r"[<>&]|[^\x00-\x7f]", embed([text]))
    assert json.loads(embed([text])) == [text]


def test_the_page_loads_nothing_and_its_policy_allows_only_its_own_script_and_style():
    text = page("aud", "rater_1", rows_of("Hi"))
    assert all(embed(paragraph)[1:-1] in text for paragraph in words_in("en")["notice"])
    made = Elements(text)
    assert not [(tag, a) for tag, a in made.tags if {"src", "href", "style", "onclick", "action"} & set(a)]
    assert not [tag for tag, _ in made.tags if tag in ("link", "iframe", "img", "object", "base", "form")]
    (policy,) = [a["content"] for tag, a in made.tags if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["connect-src"] == rules["form-action"] == "'none'"
    for tag in ("script", "style"):
        (text,) = [text for name, attrs, text in made.raw if name == tag and "type" not in attrs]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    tags = [tag for tag, _ in made.tags]
    assert tags.index("meta") < tags.index("script")


def outline(value):
    """Return the keys and numbers of texts of instructions, and of each text the marks that it may not lose."""
    if isinstance(value, dict):
        return {key: outline(part) for key, part in value.items()}
    if isinstance(value, list):
        return [outline(part) for part in value]
    return bool(value.strip()), sorted(re.findall(r"`[^`]+`|RATER|= \+ - @|\[U\+202E\]", value))


def test_the_instructions_are_whole_in_every_language():
    assert set(LANGUAGES) == {"en", "es", "fr", "de", "pt", "ja", "ko", "ru", "ar", "hi"}
    english = words_in("en")
    for language in LANGUAGES:
        words = words_in(language)
        assert outline(words) == outline(english) and words["language"] == language
        assert all(label in words["how"][0] for label in words["meanings"]), language
        assert language == "en" or words["task"] != english["task"]


@pytest.mark.parametrize("language", ["en", "ar"])
def test_a_raters_files_are_in_the_audits_language(language):
    text, sheet = page("aud", "rater_1", rows_of("Hi"), language), read_first("aud", "rater_1", 1, language)
    words, direction = words_in(language), {"en": "ltr", "ar": "rtl"}[language]
    places = [a for tag, a in Elements(text).tags if a.get("lang") == language and "dir" in a]
    assert [a["dir"] for a in places] == [direction] * 4  # the notice, what the labels mean, and two headings
    assert all(words["headings"][name] in text for name in ("before", "task", "labels", "asked", "answered", "start"))
    assert words["rules"][0] in sheet and "rater_1.csv" in sheet and "refusal" in sheet


def test_raters_files_name_no_model_no_judge_no_split_and_no_study(tmp_path, monkeypatch):
    take(monkeypatch, write_study(tmp_path))
    draw = ["audit", "draw", "study.yaml", "--size", "60", "--folder", str(tmp_path / "audit")]
    assert main([*draw, "--language", "xx"]) != 0
    assert main([*draw, "--language", "es"]) == 0
    assert words_in("es")["rules"][0] in (tmp_path / "audit" / "raters" / "rater_1.txt").read_text(encoding="utf-8")
    files = sorted((tmp_path / "audit" / "raters").iterdir())
    assert [file.name for file in files] == [f"rater_{i}.{end}" for i in (1, 2) for end in ("csv", "html", "txt")]
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not [name for name in (*MODELS, *JUDGES, "tiny-study", "disagree", "probability") if name in text]
