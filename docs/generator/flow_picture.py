"""A flowchart of mermaid as an SVG picture: the site draws it without a network, where GitHub has mermaid itself.

It knows what our charts use: `a & b --> c`, `a -. label .-> b`, `a["text"]`, `a[("text")]` and `class a,b gpu`.
"""

import html
import itertools
import re
from collections.abc import Mapping, Sequence

WIDTH, HEIGHT, BOX, ROW, COLUMN = 640, 34, 150, 58, 180
EDGE = re.compile(r"^ +([\w &]+?) (-->|-\. [^.]+ \.->) ([\w &]+)$", re.MULTILINE)
TEXT = re.compile(r'(\w+)\[\(?"([^"]+)"\)?\]')


def flow_picture(chart: str) -> str:
    """Return the SVG of a chart, the first steps at its top; what only dashed arrows lead to is at its side."""
    found = [(a, b, kind) for first, kind, second in EDGE.findall(chart) for a, b in _pairs(first, second)]
    solid = [(a, b) for a, b, kind in found if kind == "-->"]
    ranks = _ranks(solid)
    aside = {name for edge in found for name in edge[:2]} - set(ranks)
    places = _places(ranks, sorted(aside))
    heavy = {name for names in re.findall(r"class ([\w,]+) ", chart) for name in names.split(",")}
    texts = dict(TEXT.findall(chart))
    high = max(y for _, y in places.values()) + HEIGHT
    lines = [_arrow(places[a], places[b], kind != "-->") for a, b, kind in found]
    boxes = [_box(places[name], texts.get(name, name.replace("_", " ")), name in heavy) for name in places]
    head = '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head += '<path d="M0 0 L8 4 L0 8z" fill="currentColor"/></marker>'
    frame = f'viewBox="0 0 {WIDTH} {high + 4}" style="max-width:{WIDTH}px;width:100%" font-size="13"'
    inside = "".join(lines + boxes)
    return f'<svg class="flow" xmlns="http://www.w3.org/2000/svg" {frame}><defs>{head}</defs>{inside}</svg>'


def _pairs(first: str, second: str) -> list[tuple[str, str]]:
    return list(itertools.product(first.split(" & "), second.split(" & ")))


def _ranks(edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return how many arrows lead to each step at most; where none does, it is right above what it leads to."""
    ranks = dict.fromkeys([name for edge in edges for name in edge], 0)
    for _ in ranks:
        for a, b in edges:
            ranks[b] = max(ranks[b], ranks[a] + 1)
    ends = {b for _, b in edges}
    return {
        name: rank if name in ends else min(ranks[b] for a, b in edges if a == name) - 1 for name, rank in ranks.items()
    }


def _places(ranks: Mapping[str, int], aside: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the upper left corner of each box."""
    places: dict[str, tuple[int, int]] = {}
    for rank in sorted(set(ranks.values())):
        names = [name for name in ranks if ranks[name] == rank]
        left = 10 + COLUMN - COLUMN * (len(names) - 1) // 2
        places |= {name: (left + COLUMN * number, 2 + ROW * rank) for number, name in enumerate(names)}
    middle = 2 + ROW * max(ranks.values()) // 3
    return places | {name: (WIDTH - BOX - 2, middle + ROW * number) for number, name in enumerate(aside)}


def _arrow(start: tuple[int, int], end: tuple[int, int], dashed: bool) -> str:
    (x1, y1), (x2, y2) = start, end
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    if dashed:  # from side to side
        left, right = (x1 + BOX, x2) if x1 < x2 else (x1, x2 + BOX)
        ends = f"M{left} {y1 + HEIGHT // 2} L{right} {y2 + HEIGHT // 2}"
    else:
        a, b, middle = x1 + BOX // 2, x2 + BOX // 2, (y1 + HEIGHT + y2) // 2
        ends = f"M{a} {y1 + HEIGHT} C{a} {middle} {b} {middle} {b} {y2}"
    return f'<path d="{ends}" fill="none" stroke="currentColor"{dash} marker-end="url(#tip)"/>'


def _box(place: tuple[int, int], text: str, heavy: bool) -> str:
    x, y = place
    look = 'stroke="#D55E00" stroke-width="3"' if heavy else 'stroke="currentColor"'
    box = f'<rect x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="5" fill="var(--md-default-bg-color)" {look}/>'
    size = ' font-size="10"' if len(text) > 20 else ""
    middle = f'x="{x + BOX // 2}" y="{y + HEIGHT // 2 + 5}" text-anchor="middle" fill="currentColor"{size}'
    return f"{box}<text {middle}>{html.escape(text)}</text>"
