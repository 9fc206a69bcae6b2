"""Text as LaTeX prints it: nothing that a user wrote can become a command, and every character compiles."""

import itertools
import re

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # babel makes the quotation mark a command in some languages.
    '"': r"\symbol{34}",
    # After the end of a row, a bracket or star would be read as an argument of that end.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "\u2013": "--",
    "\u2014": "---",
    "\u2212": "$-$",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "‖": r"$\|$",
    "\u25c7": r"$\diamond$",
    "ᵃ": r"\textsuperscript{a}",
    "ᵇ": r"\textsuperscript{b}",
    "ᵈ": r"\textsuperscript{d}",
    "κ": r"$\kappa$",
    "τ": r"$\tau$",
    "λ": r"$\lambda$",
    "±": r"$\pm$",
    "\u00d7": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "\u221e": r"$\infty$",
    "\u2191": r"$\uparrow$",
    "\u2193": r"$\downarrow$",
    "\u00ab": r"$\ll$",
    "\u00bb": r"$\gg$",
    "\u00a0": "~",
}

# Between these pairs TeX would join two characters to one.
_JOINTS = re.compile(r"(?<=-)(?=-)|(?<=')(?=')|(?<=`)(?=`)|(?<=,)(?=,)|(?<=[?!])(?=`)")

# Characters beyond ASCII that plain pdflatex prints with its oldest font encoding too (each was compiled): Latin-1
# without eth and thorn, quotation marks, bullet, dots, the euro.
_LETTERS = (*range(0xA1, 0x100), 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2026, 0x20AC)
_PRINTED = frozenset(map(chr, _LETTERS)) - frozenset(map(chr, (0xD0, 0xDE, 0xF0, 0xFE)))
_HAN = re.compile("[\u2e80-\u2fdf\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]")

# Two engines print any script as it is; pdflatex has Chinese characters with the package CJKutf8, and else no others:
# there a question mark stands for each.
HAN = (
    "\\ifdefined\\hantext\\else\\protected\\def\\hantext#1#2{\\ifdefined\\XeTeXversion#1\\else\\ifdefined\\directlua#1"
    "\\else\\ifcsname CJK*\\endcsname\\begin{CJK*}{UTF8}{gbsn}#1\\end{CJK*}\\else#2\\fi\\fi\\fi}\\fi"
)
OTHER = (
    "\\ifdefined\\scripttext\\else\\protected\\def\\scripttext#1#2{\\ifdefined\\XeTeXversion#1\\else"
    "\\ifdefined\\directlua#1\\else#2\\fi\\fi}\\fi"
)


def latex_escaped(text: str) -> str:
    """The text as LaTeX prints it: every special character is escaped, control characters become spaces.

    Characters that plain pdflatex lacks are wrapped in a command that `definitions` defines.
    """
    return "{}".join(_part(part) for part in _JOINTS.split(text))


def definitions(latex: str) -> str:
    """The definitions that a piece of LaTeX with escaped text needs before it, a line each; empty for most."""
    needed = (("\\hantext{", HAN), ("\\scripttext{", OTHER))
    return "".join(f"{definition}\n" for command, definition in needed if command in latex)


def _part(text: str) -> str:
    groups = itertools.groupby(text, key=_kind)
    return "".join(_wrap(kind, "".join(characters)) for kind, characters in groups)


def _kind(character: str) -> str:
    if not character.isprintable():
        return "space"
    if character.isascii() or character in _ESCAPES or character in _PRINTED:
        return "plain"
    return "hantext" if _HAN.match(character) else "scripttext"


def _wrap(kind: str, text: str) -> str:
    if kind == "space":
        return " " * len(text)
    if kind == "plain":
        return "".join(_ESCAPES.get(character, character) for character in text)
    return f"\\{kind}{{{text}}}{{{'?' * len(text)}}}"
