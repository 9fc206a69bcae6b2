"""Hooks of mkdocs: make a site of the Markdown that GitHub shows, without a second copy of it (`make docs`).

- Pages that stand elsewhere in the repository, such as config/README.md, become pages of the site; other files that a
  page links to are copied as text, so that the site is whole without a network.
- Links are rewritten from the repository's paths to the site's. One that leads nowhere is left, and mkdocs reports it.
- Charts of mermaid become pictures: its program would be fetched from a network.
- Python-Markdown wants an empty line before a list and four spaces in front of what belongs to an item; CommonMark,
  which GitHub renders, does not.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file alone

from flow_picture import flow_picture

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs/"
ELSEWHERE = {
    "config/README.md": "reference/config.md",
    "results/README.md": "reference/results.md",
    "profiles/README.md": "how-to/profiles.md",
    "tests/README.md": "how-to/tests.md",
    "benchmarks/README.md": "evidence/benchmarks.md",
    "config/judges/words_english.md": "evidence/measured/words_english.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "README.md",
}
FOLDERS = {"benchmarks/measured/": "evidence/measured/"}
COPIES = "source/"
FENCE = re.compile(r"^ *(```+|~~~+)")
ITEM = re.compile(r"^ *([-*+]|\d+\.) +(?=\S)")
OPENS = re.compile(r"^ *([-*+]|1\.) +(?=\S)")  # what may begin a list right below a line of text
LINK = re.compile(r'(\]\(|(?:src|href)=")([^)\s"]+)')


# ---------------------------------------------------------------- what mkdocs calls


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand outside of docs/, and copies of the files that pages link to."""
    from mkdocs.structure.files import File  # only the docs environment has it

    paths = {path for folder in FOLDERS for path in _files_under(folder)} | set(ELSEWHERE) - {"README.md"}
    for path in sorted(paths):
        files.append(File.generated(config, address_of(path), abs_src_path=str(ROOT / path)))
    linked = {path for page in files.documentation_pages() for path in _copied(page)}
    for path in sorted(linked):
        files.append(File.generated(config, address_of(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page as the site needs it."""
    drawn = re.sub(r"```mermaid\n(.*?)```", lambda match: flow_picture(match[1]), markdown, flags=re.DOTALL)
    return spaced_lists(relinked(drawn, page.file.src_uri))


# ---------------------------------------------------------------- links


def address_of(path: str) -> str:
    """Return where a file of the repository is in the site."""
    if path in ELSEWHERE:
        return ELSEWHERE[path]
    for folder, place in FOLDERS.items():
        if path.startswith(folder):
            return place + path.removeprefix(folder)
    return path.removeprefix(DOCS) if path.startswith(DOCS) else f"{COPIES}{path}.txt"


def path_of(address: str) -> str:
    """Return which file of the repository a page of the site is."""
    outside = {place: path for path, place in ELSEWHERE.items() if path != "README.md"}
    if address in outside:
        return outside[address]
    for folder, place in FOLDERS.items():
        if address.startswith(place):
            return folder + address.removeprefix(place)
    return DOCS + address


def relinked(markdown: str, address: str) -> str:
    """Return a page with its links as they are in the site; a link to a folder becomes its text."""
    here = posixpath.dirname(path_of(address))

    def replaced(match: re.Match[str]) -> str:
        name, hash_, anchor = match[2].partition("#")
        path = _target(name, here)
        if path is None or not (ROOT / path).is_file():
            return match[0]
        return match[1] + posixpath.relpath(address_of(path), posixpath.dirname(address) or ".") + hash_ + anchor

    def plain(match: re.Match[str]) -> str:
        path = _target(match[2], here)
        return match[1] if path and (ROOT / path).is_dir() else match[0]

    parts = _parts(markdown)
    parts[::2] = [LINK.sub(replaced, re.sub(r"\[([^]]+)\]\(([^)\s]+)\)", plain, part)) for part in parts[::2]]
    return "".join(parts)


def _target(link: str, here: str) -> str | None:
    """Return the file of the repository that a link leads to, None for other hosts and places within the page."""
    if not link or re.match(r"[a-z]+:", link):
        return None
    return posixpath.normpath(posixpath.join(here, link))


def _copied(page: Any) -> set[str]:
    """Return the files outside of the site that a page links to."""
    path = path_of(page.src_uri)
    links = [match[2] for part in _parts(_text(path))[::2] for match in LINK.finditer(part)]
    targets = {_target(link.partition("#")[0], posixpath.dirname(path)) for link in links}
    return {name for name in targets if name and (ROOT / name).is_file() and address_of(name).startswith(COPIES)}


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _files_under(folder: str) -> list[str]:
    return [found.relative_to(ROOT).as_posix() for found in (ROOT / folder).rglob("*") if found.is_file()]


# ---------------------------------------------------------------- lists


def spaced_lists(markdown: str) -> str:
    """Return Markdown with an empty line before each list and four spaces for each level of one."""
    lines, starts, fenced, before, paragraphs = list[str](), list[int](), False, "", False
    for line in markdown.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        text_above = bool(before.strip()) and not _within_list(before, starts)
        item = None if fenced else (OPENS if text_above else ITEM).match(line)
        if line.strip() and not fenced:
            while starts and indent < starts[-1] and (item or not before.strip() or indent == 0):
                starts.pop()
        depth = len(starts)
        inside = starts[-1] if starts else 0
        if item and before.strip() and (text_above or paragraphs):
            lines.append("")
        lines.append(" " * (4 * depth + max(0, indent - inside)) + line.lstrip(" ") if line.strip() else "")
        if item:
            starts.append(item.end())
        if FENCE.match(line):
            fenced = not fenced
        paragraphs = not item and (paragraphs or not line.strip())  # whether the item above has several
        before = line
    return "\n".join(lines) + "\n"


def _within_list(before: str, starts: list[int]) -> bool:
    return bool(starts) or bool(ITEM.match(before)) or before.startswith("  ")


def _parts(markdown: str) -> list[str]:
    """Return Markdown in parts: every second one is a fenced block."""
    return re.split(r"(^ *```.*?^ *```)", markdown, flags=re.DOTALL | re.MULTILINE)
