"""Mistakes of splits of kind `written`, `vetted` and `filled`: templates, columns, and rows that were not written."""

from collections.abc import Iterator, Sequence

from refusal_eval.config.checked_study import CheckedStudy
from refusal_eval.config.datasets import Split
from refusal_eval.config.problems import Mistake
from refusal_eval.core.errors import UserError
from refusal_eval.core.hints import nearest
from refusal_eval.core.rubric import within_bounds
from refusal_eval.features.written.filled_rows import FILLED_IN, FilledRows
from refusal_eval.features.written.vetted_rows import SAID, VettedRows
from refusal_eval.features.written.writing_template import WritingTemplate
from refusal_eval.features.written.written_rows import OF_ITS_OWN, STATE, WrittenRows


def written_mistakes(study: CheckedStudy) -> Iterator[Mistake]:
    """Yield what is wrong with such splits, and with what is made of them."""
    for name, split in study.entries("splits").items():
        source, valid = split.source, study.catalogue.valid["splits"]
        made_of = valid.get(source.made_of)
        if made_of is not None and isinstance(made_of.source, WrittenRows) and _holds_others(made_of):
            yield ("splits", str(source.made_of), "where"), _leave_out(f"`{name}` is made of its prompts")
        if isinstance(source, WrittenRows) and name in study.splits and _holds_others(split):
            yield ("splits", name, "where"), _leave_out("the study evaluates it")
        if name in study.catalogue.brought or not isinstance(source, WrittenRows | VettedRows | FilledRows):
            continue
        if isinstance(source, FilledRows) and source.samples is not None:
            yield ("splits", name, "source", "samples"), "is for splits that `written` brings; leave it out"
        if made_of is not None:
            yield from _about_columns(name, split, made_of)


def _about_columns(name: str, split: Split, parent: Split) -> Iterator[Mistake]:
    source, here = split.source, ("splits", name)
    assert isinstance(source, WrittenRows | VettedRows | FilledRows)
    kept = parent.columns.keep or []
    if message := _template_mistake(source.template, kept, source.split):
        yield (*here, "source", "template"), message
    own = OF_ITS_OWN if isinstance(source, WrittenRows) else [SAID if isinstance(source, VettedRows) else FILLED_IN]
    asked: list[tuple[tuple[str, ...], str, list[str]]] = [
        (("columns", "keep"), column, [*own, *kept]) for column in split.columns.keep or ()
    ]
    if isinstance(source, WrittenRows):
        asked += [(("source", "checks", "without"), column, kept) for column in source.checks.without or ()]
    for path, column, known in asked:
        if column not in known:
            message = f"split `{source.split}` keeps no column `{column}` (`columns.keep`){nearest(column, known)}"
            yield (*here, *path), message
    if parent.dialogue is not None:
        message = f"the prompts of `{source.split}` are dialogues; name a split whose rows are one question each"
        yield (*here, "source", "split"), message
    if split.dialogue is not None:
        yield (*here, "dialogue"), f"the prompts of `{source.split}` are no dialogues; leave it out"


def _template_mistake(path: str, kept: Sequence[str], split: str) -> str | None:
    """Return what is wrong with a template, None where nothing is; of a file that is not there another check tells."""

    def found() -> str | None:
        try:
            template = WritingTemplate(path)
            if lacking := [column for column in template.columns if column not in kept]:
                known = [*kept, "prompt", "conversation", "nonce"]
                why = f"split `{split}` keeps no column `{lacking[0]}` (`columns.keep`)"
                return f"template {path}: {why}{nearest(lacking[0], known)}"
            if open_ones := template.open_variables():
                name = open_ones[0]
                return (
                    f"template {path} lets `{name}` close its own block and speak as the template; write it between "
                    f"tags with {{{{ nonce }}}}: <text_{{{{ nonce }}}}>, {{{{ {name} }}}}, </text_{{{{ nonce }}}}>"
                )
        except FileNotFoundError:
            return None
        except UserError as error:
            return str(error)
        return None

    return within_bounds(f"template {path}", found)


def _holds_others(split: Split) -> bool:
    """Tell whether a split of this kind has rows that were not written."""
    return STATE not in (split.where or {})


def _leave_out(why: str) -> str:
    return f"{why}, and rows that were refused or failed hold no prompt; write `where: {{{STATE}: written}}`"
