"""Letters that look like Latin ones, read as the Latin ones where a text is written in Latin letters."""

# ruff: noqa: RUF001 (letters that look like others are the subject)

from __future__ import annotations

import re
import unicodedata

# A letter, and the Latin one that it passes for. Unicode's NFKC has those of mathematics, circles and full width.
_PAIRS = (
    # Cyrillic
    "аa вb сc ԁd еe ёe ғf һh нh іi їi јj кk ӏl мm пn оo рp ԛq гr ѕs тt цu уy ѵv ѡw ԝw шw хx ьb зz иu ч4 "
    "АA ВB СC ԀD ЕE ЁE НH ІI ЇI ЈJ КK ӀI МM ОO РP ԚQ ЅS ТT УY ҮY ѴV ԜW ХX "
    # Greek
    "αa άa βb ϲc ςc εe έe ϝf ηn ήn ιi ίi ϊi ϳj κk λl μu νv οo όo ρp σo τt υu ύu χx ωw ώw γy "
    "ΑA ΆA ΒB ϹC ΕE ΈE ΗH ΉH ΙI ΊI ͿJ ΚK ΜM ΝN ΟO ΌO ΡP ΤT ΥY ΎY ΧX ΖZ "
    # Armenian, Cherokee, Lisu
    "ոn սu ցg հh օo զq ѡw աw ԼL ՕO ՍU ՏS "
    "ᎪA ᏴB ᏟC ᎠD ᎬE ᏀG ᎻH ᎫJ ᏦK ᏞL ᎷM ᏃZ ᏢP ᏒR ᎡR ᏚS ᎢT ᏙV ᎳW ᎩY ᏤV "
    "ꓐB ꓚC ꓓD ꓰE ꓝF ꓖG ꓧH ꓲI ꓙJ ꓗK ꓡL ꓟM ꓠN ꓳO ꓑP ꓣR ꓢS ꓔT ꓴU ꓦV ꓪW ꓫX ꓬY ꓜZ ꓮA "
    # Latin letters of other alphabets: small capitals, of phonetics, without their dot
    "ᴀa ʙb ᴄc ᴅd ᴇe ꜰf ɢg ʜh ɪi ᴊj ᴋk ʟl ᴍm ɴn ᴏo ᴘp ꞯq ʀr ꜱs ᴛt ᴜu ᴠv ᴡw ʏy ᴢz "
    "ɑa ɓb ƈc ɖd ɗd ǝe ɡg ɦh ɩi ıi ȷj ɭl ɱm ɳn ɵo ƿp ʂs ʈt ʋv ɯm"
)
_PASSES_FOR = {pair[0]: pair[-1] for pair in _PAIRS.split()}
_TABLE = str.maketrans(_PASSES_FOR)
_LOOKALIKE = re.compile(f"[{''.join(_PASSES_FOR)}]")
_SQUARED = {0x1F1E6 + i: chr(65 + i) for i in range(26)}  # letters of flags, and those in black circles and boxes
_SQUARED |= {first + i: chr(65 + i) for first in (0x1F150, 0x1F170) for i in range(26)}
_BOXED = re.compile("[\U0001f150-\U0001f169\U0001f170-\U0001f189\U0001f1e6-\U0001f1ff]{2,}")
# These look like it only beside Latin letters: "мир" is a word, and not "mup".
_ROUGH = re.compile("[вгзикмнптцчшьβγηικλμνστυωηίήώύϋϊ]")
# Lines through and under letters, and piles of marks on them; an accent or two belong to a language.
_DRAWN_OVER = re.compile("(?<=[A-Za-z])(?:[\u0330-\u0338\u0347\u20d0-\u20e8]|[\u0300-\u036f]{3})")
_MARKS = re.compile("[\u0300-\u036f\u20d0-\u20e8]+")
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(r"[A-Za-z]")
MOST_FOREIGN = 0.2  # of the letters of a text that is written in Latin ones
FLAG = 2  # letters: a flag


def latin_letters(text: str) -> str:
    """Return a text in NFKC with the letters that pass for Latin ones as those.

    A word changes if all its letters are Latin or look like it, and it either mixes both or, if they look much like
    it, stands in a text that is otherwise in Latin letters. So a text in Russian or Greek stays as it is.
    """
    if _BOXED.search(text):
        text = _BOXED.sub(lambda run: run[0] if len(run[0]) == FLAG else run[0].translate(_SQUARED), text)
    if _DRAWN_OVER.search(text):
        text = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", text)))
    if not _LOOKALIKE.search(text):
        return text
    latin = len(_LATIN.findall(text))
    foreign = sum(map(str.isalpha, _LOOKALIKE.sub("", text))) - latin
    otherwise_latin = latin > 0 and foreign <= MOST_FOREIGN * latin

    def read(word: re.Match[str]) -> str:
        changed = word[0].translate(_TABLE)
        alone = otherwise_latin and not _ROUGH.search(word[0])
        return changed if changed.isascii() and (alone or _LATIN.search(word[0])) else word[0]

    return _WORD.sub(read, text)
