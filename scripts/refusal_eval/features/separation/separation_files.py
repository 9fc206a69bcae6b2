"""The files of separations."""

from refusal_eval.features.separation.separation_keys import SeparationKeys
from refusal_eval.study.files import File

SEPARATION = File(
    ("separation/{separation}.csv",),
    ("separation",),
    lambda study: [(entry.name,) for entry in SeparationKeys.of(study.settings).separation],
    of_report=True,
    shown=True,
    after="cards",
)
AQI = File(
    ("separation/aqi/{separation}.csv",),
    ("aqi",),
    lambda study: [(entry.name,) for entry in SeparationKeys.of(study.settings).separation if entry.aqi is not None],
    "separation/aqi",
    of_report=True,
    shown=True,
    after="separation",
)
