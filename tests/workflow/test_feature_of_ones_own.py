"""A feature of the user's own in one folder: its numbers and table, its words in the dictionary and the methods."""

import shutil
from pathlib import Path

import pandas as pd
from project import Project

FEATURE = Path(__file__).parents[1] / "plugins" / "lengths_feature"


def test_an_analysis_with_its_table_and_words_is_one_folder(finished: Project) -> None:
    folder = finished.folder / "lengths"
    shutil.copytree(FEATURE, folder)
    finished.study(plugins=["lengths/lengths.py"])
    ran = finished.ran()
    # Its own table, and those that read the results table: rates and the judge's errors, trade-off, corrected rates.
    assert (ran["analysis"], ran["table"], ran["results_table"], ran["methods"]) == (1, 6, 1, 1)
    assert not {"score", "estimates", "figure"} & set(ran)
    results = finished.results
    numbers = pd.read_csv(results / "results_table" / "results.csv")
    assert len(numbers[numbers["estimand"] == "refusal_tokens"]) == 4
    assert "| Tokens |" in (results / "tables" / "refusal_lengths.md").read_text()
    assert "The mean length of refusals." in (results / "results_table" / "dictionary.md").read_text()
    assert "Lengths of refusals are means over samples." in (results / "methods.md").read_text()
    words = folder / "methods.j2"
    words.write_text(words.read_text().replace("are means", "are plain means"))
    assert finished.planned() == {"methods": 1}
    module = folder / "lengths.py"
    module.write_text(module.read_text().replace('"How long refusals are."', '"Lengths."'))
    planned = finished.planned()
    assert planned["table"] == 6 and not {"score", "estimates"} & set(planned)
