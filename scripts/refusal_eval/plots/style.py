"""The look of every figure, and how figures become files that do not change unless the data do.

Rules import figure classes while they plan, so modules here import matplotlib only in functions that draw.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refusal_eval.core.files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CM = 72 / 2.54  # points
COLUMN_WIDTH = 8.5 * CM  # points; one column of a two-column paper
PAGE_HEIGHT = 22 * CM  # what a page leaves besides a caption
TEXT_SIZE = 7.0  # points, at the width above; nothing is smaller
LINE_HEIGHT = 8.6

# Colours that people with any colour vision tell apart (Okabe & Ito 2008, "Color Universal Design").
BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#8C8C8C"
INK, FAINT, PALE = "#222222", "#E4E4E4", "#F2F2F2"
# Light to dark in one hue: its order survives a black-and-white printer.
RATE_COLOURS = "Blues"

_FONT = "DejaVu Sans"  # comes with matplotlib, so a figure looks the same everywhere
# It has no Chinese, Japanese or Korean characters. These fonts have Chinese ones; the first installed one is used.
_CHINESE = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "PingFang SC", "Microsoft YaHei", "SimHei"),
    "Arial Unicode MS",
)

_SETTINGS: dict[Any, Any] = {
    "font.size": TEXT_SIZE,
    "axes.labelsize": TEXT_SIZE,
    "axes.labelpad": 2,
    "axes.titlesize": TEXT_SIZE,
    "axes.titleweight": "normal",
    "axes.titlepad": 5,
    "figure.labelsize": TEXT_SIZE,
    "legend.fontsize": TEXT_SIZE,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0.4,
    "legend.handlelength": 1.6,
    "legend.handletextpad": 0.6,
    "legend.columnspacing": 1.6,
    "legend.labelspacing": 0.25,
    "axes.linewidth": 0.6,
    "xtick.labelsize": TEXT_SIZE,
    "ytick.labelsize": TEXT_SIZE,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "xtick.major.pad": 1.5,
    "ytick.major.pad": 1.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.parse_math": False,  # a $ in a label is a $
    "pdf.fonttype": 42,  # embedded as TrueType: text stays text, which some publishers demand
    "svg.fonttype": "path",
    "svg.hashsalt": "refusal-eval",  # ids in the file would be random otherwise
}
_METADATA: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
_DPI = 300


@functools.cache
def font_families() -> list[str]:
    """Return the families that text is set in: the first has all but the characters that it lacks.

    Only installed ones, as matplotlib warns of others at each text.
    """
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return [_FONT, *[name for name in _CHINESE if name in installed][:1]]


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Within the block figures have this style, whatever the user's matplotlibrc says."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS | {"font.family": font_families()})
        yield


def save_figure(fig: Figure, stem: str | Path) -> list[Path]:
    """Write STEM.pdf, STEM.svg and STEM.png (300 dpi), each whole or not at all, without dates; return their paths."""
    paths = []
    with figure_style():
        for kind, metadata in _METADATA.items():
            path = Path(f"{stem}.{kind}")
            with written_whole(path, "wb") as handle:
                fig.savefig(handle, format=kind, dpi=_DPI, metadata=metadata)
            paths.append(path)
    return paths
