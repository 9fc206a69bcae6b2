"""The rules' questions about a study that has one entry of every kind, for the tests of refusal_eval/workflow/."""

from types import SimpleNamespace

from config_project import WHOLE_STUDY

from refusal_eval.workflow.comparing_stage import Comparisons
from refusal_eval.workflow.correcting import Correcting
from refusal_eval.workflow.data_stage import Data
from refusal_eval.workflow.estimating import Estimating
from refusal_eval.workflow.execution_stage import Execution
from refusal_eval.workflow.generation import Generation
from refusal_eval.workflow.judge_cards import JudgeCards
from refusal_eval.workflow.judging import Judging
from refusal_eval.workflow.reporting import Reporting
from refusal_eval.workflow.results_stage import Results
from refusal_eval.workflow.scoring import Scoring
from refusal_eval.workflow.tradeoff_stage import TradeOff
from refusal_eval.workflow.weights_stage import Weights

CELLS = [
    {"model": model, "split": split}
    for model in sorted(WHOLE_STUDY["models"])
    for split in sorted(WHOLE_STUDY["splits"])
]


def stages(config, root, cores=2):
    """Return what common.smk builds, under the names that the rules use."""
    return SimpleNamespace(
        data=Data(config, root),
        estimating=Estimating(config),
        weights=Weights(config),
        generation=Generation(config),
        execution=Execution(config, root, cores),
        judging=Judging(config),
        judge_cards=JudgeCards(config),
        comparisons=Comparisons(config),
        tradeoff=TradeOff(config),
        correcting=Correcting(config),
        scoring=Scoring(config),
        reporting=Reporting(config),
        results=Results(config),
    )


def of(**wildcards):
    """Return wildcards as Snakemake gives them."""
    return SimpleNamespace(**wildcards)
