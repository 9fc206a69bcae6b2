"""The key of a study that bounds what it may spend."""

from pydantic import Field

from refusal_eval.config.feature_keys import FeatureKeys
from refusal_eval.config.shapes import Number


class BudgetKeys(FeatureKeys):
    """What hosted models and judges may cost."""

    budget: Number | None = Field(
        None,
        gt=0,
        description="The most that the study may spend on hosted models and judges together, in the currency of their "
        "`price`s. No request is sent that could cost more than is left of it; the load then ends, and a rerun with a "
        "larger budget asks only for the rest. Money is counted in `<store_dir>/spending/<study>.journal`, also that "
        "of earlier runs. Default: no limit.",
    )
