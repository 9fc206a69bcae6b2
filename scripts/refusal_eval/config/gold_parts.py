"""What a gold entry knows of its rows beside their label of refusal: labels of a judge's flags, and slices."""

from __future__ import annotations

from pydantic import Field, model_validator

from refusal_eval.config.shapes import Entry, Text


class GoldFlag(Entry):
    """Labels for one flag of judges, such as WildGuard's `response_harm`. Rows with an empty cell have none."""

    column: Text = Field(description="Column with these labels.")
    raised: Text = Field(description="Its value in rows to which the flag belongs.")
    not_raised: Text = Field(description="Its value in rows to which it does not.")

    @model_validator(mode="after")
    def _two_values(self) -> GoldFlag:
        if self.raised == self.not_raised:
            raise ValueError(f"`raised` and `not_raised` are both `{self.raised}`")
        return self


class GoldSlices(Entry):
    """Parts of a gold set that judges are also measured on, each by itself. Rows with an empty cell are in none."""

    column: Text = Field(description="Column that says to which slice a row belongs.")
    names: dict[Text, Text] = Field(
        min_length=1, description='Name of the slice that each value of the column means: `{"true": adversarial}`.'
    )
