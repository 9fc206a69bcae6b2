"""What is known about an entry and runs nothing: whether it is on, its terms, its licence, whom to cite."""

from __future__ import annotations

import re

from pydantic import Field, field_validator, model_validator

from refusal_eval.config.shapes import Entry, Page, Text

CITATION_KEY = r"[a-z0-9][a-z0-9-]*"


class Marks(Entry):
    """Marks of an entry. They are in no key; a changed citation writes the methods section again, and that is all."""

    enabled: bool = Field(
        True,
        description="`false`: a study uses it only if it names it in `allow`. For what is not free to use, is gated, "
        "or was never seen.",
    )
    reason: Text | None = Field(None, description="Why it is off; shown to whoever uses it.")
    gated: bool = Field(False, description="Whether you must ask for access first.")
    terms: Page | None = Field(None, description="Where to ask for access, or to read the terms.")
    licence: Text | None = Field(None, description="Licence, as its publisher states it.")
    licence_of_origin: Text | None = Field(
        None, description="Licence of the original that it was made from, if different."
    )
    description: Text | None = Field(None, description="What it is, and what to know before trusting a number on it.")
    homepage: Page | None = Field(None, description="Its page.")
    citation: list[Text] = Field(
        [],
        description="Whom to cite: keys of config/catalogue/references.bib, or your own BibTeX (text that starts with "
        "`@`).",
    )
    unverified: list[Text] = Field(
        [], description="What could not be verified when the entry was written; the log says so at first use."
    )

    @model_validator(mode="after")
    def _says_why(self) -> Marks:
        if not self.enabled and self.reason is None:
            raise ValueError("`enabled: false` needs a `reason`: users read it")
        if self.gated and self.terms is None:
            raise ValueError("`gated: true` needs `terms`: the address where one asks for access")
        return self

    @field_validator("citation")
    @classmethod
    def _keys_or_bibtex(cls, value: list[str]) -> list[str]:
        for item in value:
            if not (item.startswith("@") or re.fullmatch(CITATION_KEY, item)):
                raise ValueError(f"{item[:60]!r} is neither a key of config/catalogue/references.bib nor BibTeX (@...)")
        return value
