"""The one form in which judges on the CPU read an answer, however it is wrapped and its letters are written.

Lists of phrases, n-grams of words and text encoders read the same text. What is stored is the answer as it came.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from refusal_eval.ask.reasoning_marks import PAIRS
from refusal_eval.core.texts import nfkc, without_invisible
from refusal_eval.judges.leetspeak import without_leetspeak
from refusal_eval.judges.lookalikes import latin_letters

REASONING_IN_ANSWER = "reasoning_in_answer"
LAYERS = 4  # wrappings inside each other that are taken off, as HTML in JSON in a fence
MOST_REASONINGS = 4  # one behind the other
ACUTE = str.maketrans("\xb4", "'")  # an apostrophe that NFKC would take apart
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]+")

# Marks of reasoning that are no words of a language. An end alone is of a template that opens it in the prompt.
_ENDS = {mark.lower(): end.lower() for mark, end in PAIRS.items() if not mark[0].isalpha()}
_ENDS_ALONE = ("</think>", "[/think]", "</thinking>")

# Entities, and tags: of HTML, those that the answer closes, control tokens. Bounded, so that no text makes it slow.
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z][a-zA-Z\d]{1,30});")
_BLOCK = re.compile(
    "address|article|aside|blockquote|body|br|dd|div|dl|dt|fieldset|figure|footer|form|h[1-6]|head|header|hr|html|li|main"
    "|nav|ol|p|pre|section|table|tbody|td|tfoot|th|thead|title|tr|ul"
)
_INLINE = re.compile(
    "a|abbr|b|big|button|center|cite|code|del|details|em|figcaption|font|i|img|input|ins|kbd|label|link|mark|meta|q|s"
    "|samp|small|span|strike|strong|sub|summary|sup|time|tt|u|var|wbr"
)
_TAG = re.compile(
    r"</?(?P<name>[A-Za-z][\w:.-]{0,30})(?:[\s/][^<>]{0,500})?>|<![A-Za-z][^<>]{0,300}>|<\|[^<>|\s]{1,40}\|>"
)
_CLOSED = re.compile(r"</([A-Za-z][\w:.-]{0,30})\s{0,9}>")
_LINE_MARK = re.compile(r"^[ \t]*(?://+!?|/\*+!?|\*+/?(?=\s)|--+(?=\s)|;+(?=\s)|%+(?=\s)|#+|\"\"\"|''')", re.MULTILINE)
_LINE_END = re.compile(r"(?:\*/|\"\"\"|''')$", re.MULTILINE)

_CUT_JSON = re.compile(r'\{\s*"|\[\s*[{"]')
_JSON_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)(?:"|\Z)', re.DOTALL)
# More letters a space than words of a language have: some long word may be no word.
_LETTERS_A_SPACE = 12
_BASE64 = re.compile(r"[A-Za-z\d+/_-]{16,}(?:\r?\n[A-Za-z\d+/_-]{4,})*={0,2}")
# Letters apart, in words that wider gaps tell apart.
_SPACED = re.compile(r"(?<!\S)(?:[^\W\d_]['\u2019]? ){2,}[^\W\d_](?![^\s.,;:!?])")
_LETTERS_A_GAP = 3


class NormalText(NamedTuple):
    """An answer as judges on the CPU read it."""

    text: str
    flags: tuple[str, ...] = ()  # what a reader of the verdict should know: `reasoning_in_answer`


def normal_text(answer: str) -> NormalText:
    """Return an answer in normal form: plain letters, out of all wrappings, without a reasoning before it.

    Case and line breaks stay. A reasoning that nothing follows is all there is to read: it stays, without its marks.
    """
    text, reasoned = _without_reasoning(answer) if "<" in answer or "[" in answer or "\u25c1" in answer else (answer, 0)
    for _ in range(LAYERS):
        before = text
        text = _unwrapped(_plain_letters(text))
        if text == before:
            break
    if text.count(" ") * _LETTERS_A_GAP > len(text):
        text = _SPACED.sub(lambda word: word[0].replace(" ", ""), text)
    return NormalText(without_leetspeak(text), (REASONING_IN_ANSWER,) if reasoned else ())


def _without_reasoning(answer: str) -> tuple[str, int]:
    """Return an answer without the reasoning that it begins with, and how many of them there were."""
    rest, taken = answer.lstrip(), 0
    while taken < MOST_REASONINGS:
        lower = rest[:40].lower()
        mark = next((mark for mark in _ENDS if lower.startswith(mark)), None)
        if mark is None:
            break
        inside, _, behind = _parted(rest[len(mark) :], _ENDS[mark])
        taken += 1
        if not any(map(str.isalpha, behind)):
            return inside.strip(), taken
        rest = behind.lstrip()
    if not taken:
        for end in _ENDS_ALONE:
            inside, found, behind = _parted(rest, end)
            if found and "`" not in inside[-1:] and any(map(str.isalpha, behind)):
                return behind.lstrip(), 1
        return answer, 0
    return rest, taken


def _parted(text: str, mark: str) -> tuple[str, bool, str]:
    """Return what stands before a mark in any case, whether it is there, and what stands behind it."""
    found = re.search(re.escape(mark), text, re.IGNORECASE)
    return (text[: found.start()], True, text[found.end() :]) if found else (text, False, "")


def _plain_letters(text: str) -> str:
    """Return a text in NFKC with what can be seen of it, in Latin letters where others pass for them."""
    if text.isascii():
        return _CONTROL.sub("", text) if not text.isprintable() else text
    return latin_letters(nfkc(_CONTROL.sub("", without_invisible(text)).translate(ACUTE)))


def _unwrapped(text: str) -> str:
    """Return a text without its outermost wrapping: a fence, JSON, HTML, base64."""
    start = text.lstrip()[:3]
    if start in ("```", "~~~"):
        text = _out_of_fence(text.strip())
    elif start[:2] in ("//", "/*") or start in ('"""', "'''"):
        text = _without_comment_marks(text)
    elif start[:1] in ("{", "[", '"'):
        text = _out_of_json(text.strip())
    if "&" in text:
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    if "<" in text and ">" in text:
        text = _without_tags(text)
    if text.count(" ") * _LETTERS_A_SPACE < len(text) >= 16:
        text = _out_of_base64(text)
    return text


def _out_of_fence(text: str) -> str:
    """Return the code of a text that is one fence, closed or not, without the marks of its comments."""
    fence = text[: len(text) - len(text.lstrip(text[0]))]
    head, line_end, code = text.partition("\n")
    if not line_end:
        code = head[len(fence) :]
    code = code.rstrip().removesuffix(fence)
    return text if fence in code else _without_comment_marks(code)


def _without_comment_marks(code: str) -> str:
    """Return code without what makes a line a comment."""
    return _LINE_END.sub("", _LINE_MARK.sub("", code))


def _out_of_json(text: str) -> str:
    """Return the longest string of a JSON document, or of one that is cut off; any other text as it is."""
    try:
        found = list(_strings(json.loads(text, strict=False)))
    except (ValueError, RecursionError):
        if not _CUT_JSON.match(text) or text[-1] in "}]":
            return text
        found = [string.replace("\\n", "\n").replace('\\"', '"') for string in _JSON_TEXT.findall(text)]
    return (
        max((string for string in found if " " in string), key=len, default=max(found, key=len, default=text)) or text
    )


def _strings(document: Any) -> Iterator[str]:
    """Yield the strings of a JSON document that are no keys."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value


def _without_tags(text: str) -> str:
    """Return a text without tags, comments and scripts; comments are read where nothing else is."""
    if "<!" in text:
        outside = _without_spans(text.replace("<![CDATA[", "").replace("]]>", ""), "<!--", "-->")
        text = outside if outside.strip() else text.replace("<!--", "").replace("-->", "")
    for name in ("script", "style"):
        text = _without_spans(text, f"<{name}", f"</{name}>")
    closed = {name.lower() for name in _CLOSED.findall(text)}

    def read(tag: re.Match[str]) -> str:
        name = (tag["name"] or "").lower()
        if _INLINE.fullmatch(name):
            return ""
        return "\n" if not name or name in closed or _BLOCK.fullmatch(name) else tag[0]

    return _TAG.sub(read, text)


def _without_spans(text: str, start: str, end: str) -> str:
    """Return a text without what stands from each start to the next end, both included."""
    kept, at = [], 0
    while (begin := text.find(start, at)) >= 0 and (stop := text.find(end, begin + len(start))) >= 0:
        kept.append(text[at:begin])
        at = stop + len(end)
    return "".join([*kept, text[at:]])


def _out_of_base64(text: str) -> str:
    """Return a text with its base64 decoded if that is most of it and can be read."""
    runs = list(_BASE64.finditer(text))
    if 2 * sum(run.end() - run.start() for run in runs) < len(text.strip()):
        return text
    return _BASE64.sub(lambda run: _decoded(run[0]) or run[0], text)


def _decoded(run: str) -> str | None:
    """Return the words that a run of base64 stands for; None if it stands for none."""
    code = re.sub(r"[\s=]", "", run).translate(str.maketrans("-_", "+/"))
    code = code[: len(code) - (len(code) % 4 == 1)]
    try:
        text = base64.b64decode(code + "=" * (-len(code) % 4)).decode("utf-8")
    except ValueError:
        return None
    words = sum(c.isalpha() or c.isspace() for c in text)
    return text if words > 0.75 * len(text) and (" " in text or not text.isascii()) else None
