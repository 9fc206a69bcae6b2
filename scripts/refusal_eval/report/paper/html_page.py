"""A page of a report as one file of HTML: a table or a figure with its caption, and its other files to download.

It holds all that it shows and runs no script, so that it can be opened anywhere, and in a report within another page.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from refusal_eval.report.paper.answer_page import CellLink
from refusal_eval.report.paper.html_table import html_escaped, html_table
from refusal_eval.report.paper.markup import Table
from refusal_eval.report.paper.page_style import STYLE

_TYPES = {"csv": "text/csv", "md": "text/markdown", "tex": "text/x-tex", "pdf": "application/pdf"}
_WORDS = {"csv": "numbers (CSV)", "md": "Markdown", "tex": "LaTeX", "pdf": "PDF"}
_LINK = re.compile(r'<a class="answers" href="[^"]*">(.*?)</a>')
_HINT = '<p class="hint">A number with a dotted line opens the answers behind it.</p>\n'
_VIEW_BOX = re.compile(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"')


def tables_page(tables: Sequence[Table], files: Mapping[str, bytes], link: CellLink | None = None) -> str:
    """Return the page of a table, which may have parts.

    Args:
        files: its other forms, by their names.
        link: where a cell leads that is about answers; None for a page without links.
    """
    body = "".join(html_table(table, link) for table in tables)
    return _page(tables[0].caption if tables else "", body + _HINT * bool(_LINK.search(body)), files)


def unlinked_page(page: str) -> str:
    """Return the page of a table without its links to answers, for a report that is read where those are not."""
    return _LINK.sub(r"\1", page).replace(_HINT, "")


def figure_page(title: str, caption: str, long: str, stem: Path) -> str:
    """Return the page of a figure, which is as wide as the window.

    Args:
        title: its caption's first sentence.
        caption: what else it says.
        long: what there is to say beside it.
        stem: of its files, which are there already.
    """
    svg = stem.with_name(f"{stem.name}.svg").read_bytes()
    files = [stem.with_name(f"{stem.name}.{ending}") for ending in ("csv", "pdf", "tex")]
    box = _VIEW_BOX.search(svg)
    ratio, points = (float(box[1]) / float(box[2]), float(box[1])) if box else (1.0, 400.0)
    words = f"<b>{html_escaped(title)}</b> {html_escaped(caption)}".rstrip()
    notes = f'<div class="notes"><p>{html_escaped(long)}</p></div>\n' * bool(long)
    body = (
        f'<figure class="drawing">\n<img style="--ratio: {ratio:.4f}; --points: {points:.0f}" '
        f'alt="{html_escaped(title)}" '
        f'src="{_data("image/svg+xml", svg)}">\n<figcaption><p>{words}</p></figcaption>\n{notes}</figure>\n'
    )
    return _page(title, body, {path.name: path.read_bytes() for path in files if path.is_file()})


def _page(title: str, body: str, files: Mapping[str, bytes]) -> str:
    links = "".join(_link(name, content) for name, content in files.items())
    downloads = f'<p class="files">Download: {links}</p>\n' if links else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html_escaped(title)}</title>\n<style>\nbody {{ margin: 18px; background: #fff; }}\n</style>\n"
        f"<style>\n{STYLE}</style>\n</head>\n"
        f'<body>\n<main class="paper">\n{body}{downloads}</main>\n</body>\n</html>\n'
    )


def _link(name: str, content: bytes) -> str:
    ending = name.rpartition(".")[2]
    address = _data(_TYPES.get(ending, "application/octet-stream"), content)
    return f'<a download="{html_escaped(name)}" href="{address}">{_WORDS.get(ending, html_escaped(name))}</a>'


def _data(kind: str, content: bytes) -> str:
    # In lines, which do not break the address: a longer one than 10,000 characters fits no report of Snakemake.
    return f"data:{kind};base64,{base64.encodebytes(content).decode('ascii').strip()}"
