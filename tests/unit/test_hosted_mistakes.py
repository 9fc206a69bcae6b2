"""What a study with a budget lacks: said before anything is asked."""

import pytest
from config_project import BASE, CATALOGUE, STUDY

PRICE = {"input": 1, "output": 2, "date": "2026-11-01"}
FAR = {"kind": "openai", "address": "https://host/v1", "served": "big", "as_of": "2026-11-01"}


@pytest.mark.parametrize(
    ("engines", "message"),
    [
        ([FAR], "engines.one.price: a study with a `budget` needs the price of each hosted engine"),
        ([FAR | {"price": PRICE, "parameters": {"max_tokens": None}}], "without it an answer can cost any sum"),
        ([FAR | {"price": PRICE}, FAR | {"price": PRICE | {"currency": "EUR"}}], "a budget is in one currency"),
        ([FAR | {"price": PRICE}], None),
    ],
)
def test_a_budget_that_cannot_be_held_is_a_mistake(project, engines, message):
    named = dict(zip(("one", "two"), engines, strict=False))
    models = {f"of-{name}": {"engine": name, "sampling": {"max_tokens": 64}} for name in named}
    catalogue = CATALOGUE | {"engines": CATALOGUE["engines"] | named, "models": CATALOGUE["models"] | models}
    project.write(BASE, catalogue)
    study = STUDY | {"models": list(models), "budget": 5}
    if message is None:
        assert project.load(study)["budget"] == 5
    else:
        assert any(message in line for line in project.mistakes(study))
