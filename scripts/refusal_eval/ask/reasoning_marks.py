"""Marks of reasoning in answers that are taken whole: those of published families, and others of the same shape."""

import itertools
import re
from typing import NamedTuple

from refusal_eval.core.recorded_files import CHANNEL_ENDS

CHANNELS = CHANNEL_ENDS[:2]  # what texts show of the channels of gpt-oss
CHANNEL_START = "<|channel|>analysis"
# Of published families: what opens a reasoning, and what ends it. Case does not count.
PAIRS = {
    "<think>": "</think>",
    "[THINK]": "[/THINK]",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<scratchpad>": "</scratchpad>",
    "<analysis>": "</analysis>",
    "<reflection>": "</reflection>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "◁think▷": "◁/think▷",
    "<seed:think>": "</seed:think>",
    "<|channel>": "<channel|>",
    "<unused94>": "<unused95>",
    "Here is my thought process:": "Here is my response:",
    "Here are my reasoning steps:": "[BEGIN FINAL RESPONSE]",
    "Thinking...": "...done thinking.",
    CHANNEL_START: CHANNELS[0],
}
ENDS = PAIRS | {"analysis": CHANNELS[1]}
WRITTEN = {mark.lower(): mark for mark in (*PAIRS, *PAIRS.values(), CHANNELS[1])}
KNOWN = re.compile("|".join(re.escape(mark) for mark in sorted(WRITTEN, key=len, reverse=True)), re.IGNORECASE)
CLOSING = {end.lower() for end in ENDS.values()}
# Channels whose tokens were dropped, and sentences such as Granite's.
BARE_CHANNEL = re.compile(r"\s*analysis(?=[A-Z])")
OPENING_WORDS = re.compile(
    r"[\s*#]*((?:here(?:'s|\u2019s| is| are) )?my (?:thought process|thoughts|chain of thought|internal monologue"
    r"|(?:thinking|reasoning)(?: steps| process)?)|(?:thinking|thought|reasoning) process)[*\s]*:",
    re.IGNORECASE,
)
# Headings and labels such as `**Thinking:**`, and `thought` alone in its line, as a dropped token leaves it.
OPENING_LABEL = re.compile(
    r"[\s*#_=-]*((?:thinking|thoughts?|scratch ?pad|chain of thought|internal monologue)(?:[*_ \t]*:|\.{3}|\u2026)?)"
    r"(?:(?<=:)|(?=[*_=\t -]*(?:\n|\Z)))",
    re.IGNORECASE,
)
CLOSING_WORDS = re.compile(
    r"^[ \t*#]{0,9}(here(?:'s|\u2019s| is) my (?:final )?(?:response|answer))[* ]{0,9}:", re.IGNORECASE | re.MULTILINE
)
# A tag in any brackets, without attributes; pages write them as entities, and models their slash in other ways.
NAME = r"[\w:.▁-][\w:.▁ -]{0,38}"
OPEN, CLOSE, SLASH, BAR = r"[<◁\uff1c⟨\[]|&lt;", r"[>▷\uff1e⟩\]]|&gt;", r"[/\uff0f\\]", r"[|\uff5c]"
TAG = re.compile(
    rf"(?P<open>{OPEN})(?P<bar>{BAR}?) ?(?P<slash>{SLASH}?) ?(?P<name>{NAME})(?P<tail>{BAR}?)(?P<close>{CLOSE})(?!\()"
)
THOUGHT = re.compile(
    r"think|thought|reason|analy[sz]|scratch.?pad|reflect|monologue|ponder|deliberat|rationale|(?:^|\W|_)cot(?:$|\W|_)",
    re.IGNORECASE,
)
FINAL = re.compile(r"^(?!.*\b(?:YOUR|HERE|INSERT|ADD)\b).*\b(?:FINAL|RESPONSE|ANSWER)\b")  # and no gap to fill in
# Around answers, turns and texts, and not around reasoning.
NO_THOUGHT = re.compile(
    r"(?:final[\W_]*)?(?:answer|response|output|result|reply|solution|summary|user|assistant|system|human|image|audio"
    r"|(?:tool|function)_?(?:call|response|result|output)?s?"
    r"|im_start|im_end|eot_id|bos|eos|s|pad|endoftext|end_of_text|begin_of_text|start_header_id|end_header_id"
    r"|start_of_turn|end_of_turn|end|return|call|message|start|inst|sys|html|head|body|title|meta|link|style|script"
    r"|div|span|p|br|hr|b|i|u|em|strong|small|sub|sup|code|pre|kbd|samp|var|ul|ol|li|dl|dt|dd|table|thead|tbody|tr|td"
    r"|th|h[1-6]|a|img|svg|path|form|input|label|button|select|option|textarea|section|article|header|footer|nav|main"
    r"|aside|figure|figcaption|blockquote|q|cite|abbr|mark|del|ins|details|summary|iframe|canvas|video|audio|source"
    r"|center|font|xml|root|note|item|poem|story|document|text|example|name|address|email|date|url)(?:_?id)?",
    re.IGNORECASE,
)
CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
LEAST = 20  # letters of a thought
MOST_TAGS = 200  # of an answer that are looked at


class ReasoningMark(NamedTuple):
    """A mark of reasoning: whether it opens it, and whether the answer begins with it."""

    text: str
    opens: bool
    first: bool

    @property
    def named_after_thought(self) -> bool:
        """Whether it belongs to a known family, or its name speaks of thinking."""
        return self.text.lower() in WRITTEN or THOUGHT.search(self.text) is not None


def marks_in(answer: str) -> set[ReasoningMark]:
    """Return the marks of reasoning that an answer holds."""
    found, blank, prose = set[ReasoningMark](), len(answer) - len(answer.lstrip()), CODE.sub("", answer)
    for match in KNOWN.finditer(answer):
        mark = WRITTEN[match[0].lower()]
        if mark[0].isalpha() and mark not in CHANNELS:
            continue  # a sentence: see below
        ends = mark.lower() in CLOSING
        if not ends and match[0] not in prose:
            continue  # an answer about it
        found.add(ReasoningMark(match[0], not ends, not ends and match.start() == blank))
    if BARE_CHANNEL.match(answer):
        found.add(ReasoningMark("analysis", True, True))
    if words := OPENING_WORDS.match(answer):
        found.add(ReasoningMark(f"{words[1]}:", True, True))
    elif words := OPENING_LABEL.match(answer):
        found.add(ReasoningMark(words[1], True, True))
    if (words := CLOSING_WORDS.search(answer)) and len(answer[: words.start()].strip()) >= LEAST:
        found.add(ReasoningMark(f"{words[1]}:", False, False))
    found |= _of_that_shape(prose)
    return found | {mark._replace(first=False) for mark in found}  # what begins an answer also occurs in it


def _of_that_shape(answer: str) -> set[ReasoningMark]:
    """The tags of an answer that no published family need have: named after thought, or where only its marks are.

    These are a tag before all else whose partner, if there is one, has prose before it and an answer behind it, an end
    tag that nothing opened, and a special token with text around it.
    """
    found, opened = set[ReasoningMark](), set[str]()
    tags = list(itertools.islice(TAG.finditer(answer), MOST_TAGS))
    for tag in tags:
        name, before, behind = tag["name"].strip().lower(), answer[: tag.start()].strip(), answer[tag.end() :].strip()
        square, special = tag["open"] == "[", bool(tag["bar"] or tag["tail"])
        closes = bool(tag["slash"]) or bool(tag["tail"] and not tag["bar"])
        if THOUGHT.search(name) and not (square and before and not closes and not tag["name"].isupper()):
            ends = closes or re.match(r"end|stop", name) is not None
            found.add(ReasoningMark(tag[0], not ends, not ends and not before))
        elif NO_THOUGHT.fullmatch(name) or (square and not closes and not FINAL.search(tag["name"])):
            pass
        elif closes:
            if name not in opened and len(before) >= LEAST and behind:
                found.add(ReasoningMark(tag[0], False, False))
        elif square or special:
            alone = sum(other[0] == tag[0] for other in tags) == 1
            if not before and special:
                found.add(ReasoningMark(tag[0], True, True))
            elif alone and len(before) >= LEAST and behind:
                found.add(ReasoningMark(tag[0], False, False))
        elif not before:
            end = next((one for one in tags if one["slash"] and one["name"].strip().lower() == name), None)
            inside = answer[tag.end() : end.start() if end else None]
            if len(inside.strip()) >= LEAST and "<" not in inside and (end is None or answer[end.end() :].strip()):
                found.add(ReasoningMark(tag[0], True, True))
        opened |= set() if closes else {name}
    return found
