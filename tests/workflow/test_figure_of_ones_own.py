"""A kind of figure that is one module of the user's, drawn in a study."""

import shutil
from pathlib import Path

import pandas as pd
from program import in_process
from project import Project

PLUGIN = Path(__file__).parents[1] / "plugins" / "dots_figure.py"


def test_a_kind_of_figure_is_one_module_and_its_code_redraws_it_alone(finished: Project) -> None:
    plugin = finished.folder / "dots.py"
    shutil.copy(PLUGIN, plugin)
    figures = [{"name": "rates", "kind": "heatmap"}, {"name": "spots", "kind": "dots", "size": 3, "judge": "label"}]
    finished.study(plugins=["dots.py"], figures=figures)
    assert finished.ran() == {"figure": 2}
    folder = finished.results / "figures"
    assert (folder / "spots.svg").is_file() and (folder / "spots.pdf").is_file()
    assert len(pd.read_csv(folder / "spots.csv")) == 4
    assert "Judge: label." in (folder / "spots.caption.md").read_text()
    plugin.write_text(plugin.read_text().replace('"o", markersize', '"s", markersize'))
    assert finished.planned() == {"figure": 1}


def test_a_kind_that_is_drawn_from_nothing_there_is_is_refused_before_anything_runs(finished: Project) -> None:
    plugin = finished.folder / "dots.py"
    plugin.write_text(PLUGIN.read_text().replace('("estimates", "cards")', '("score", "cards")'))
    finished.study(plugins=["dots.py"], figures=[{"name": "spots", "kind": "dots", "judge": "label"}])
    run = in_process("status", "study.yaml", cwd=finished.folder)  # whose mistakes are those that Snakemake reports
    assert run.returncode != 0
    assert "dots.py: DotsFigure.needs: there is no `score`; did you mean `scores`?" in " ".join(run.stderr.split())
    plugin.unlink()


def test_a_mistake_in_its_entry_is_reported_with_its_line(finished: Project) -> None:
    finished.study(plugins=[str(PLUGIN)], figures=[{"name": "spots", "kind": "dots", "sise": 3}])
    run = in_process("status", "study.yaml", cwd=finished.folder)
    assert run.returncode != 0 and "figures[0].sise: unknown key `sise`; did you mean `size`?" in run.stderr
