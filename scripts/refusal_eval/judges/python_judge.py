"""A judge that is a user's own function in a file of their own."""

import ast
import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from refusal_eval.config.judge_entry import Certainty, Words
from refusal_eval.config.problems import Mistake
from refusal_eval.config.shapes import FilePath, Text
from refusal_eval.config.study_view import StudyView
from refusal_eval.core.errors import UserError
from refusal_eval.core.files import canonical_json
from refusal_eval.core.hints import nearest
from refusal_eval.core.own_code import import_own, modules_beside
from refusal_eval.core.states import COMPLIANCE, JUDGED, LABELS, UNPARSABLE, VERDICT_STATES, contradicts
from refusal_eval.judges.judge_base import AnswerJudge, Messages, OwnKinds, Verdict


class PythonJudge(OwnKinds, AnswerJudge):
    """A function of your own, in a file of your own.

    It is called with (messages, answer) and returns a label (refusal, partial or compliance), None when it cannot tell
    (state unparsable), or a mapping with `label` and, if it likes, `p_refusal`, `kind`, `flags`, `state`, `raw` and
    `quality` (of the help in the answer, 0 to 1). With `kinds` it returns one of them, or a mapping with `kind`.
    """

    gives_probabilities: ClassVar[Literal["perhaps"]] = "perhaps"

    kind: Literal["python"]
    file: FilePath = Field(
        description="Python file, relative to the YAML file that names it. A change of it, or of a module in its "
        "folder that it imports, reruns this judge."
    )
    function: Text = Field(
        "judge", description="Function in that file: `(messages, answer)` to a label, a mapping, or None."
    )

    def tells_kinds(self, study: StudyView) -> Certainty:
        """Return `perhaps` without `kinds`: the function may name some."""
        return "always" if self.kinds else "perhaps"

    def files(self) -> list[str]:
        """Return the file with the function, and the modules beside it that it imports."""
        return [self.file, *(modules_beside(self.file) if os.path.isfile(self.file) else [])]

    def mistakes(self, name: str, study: StudyView) -> Iterator[Mistake]:
        """Yield also what is wrong with the file, which is read and not run."""
        yield from super().mistakes(name, study)
        if not os.path.isfile(self.file):
            return
        trees: list[ast.Module] = []
        for file in self.files():
            try:
                trees.append(ast.parse(Path(file).read_bytes()))
            except (SyntaxError, ValueError) as error:
                line = getattr(error, "lineno", None)
                yield ("file",), f"{file} is not valid Python" + (f" (line {line})" if line else "")
                return
        nodes = list(ast.walk(trees[0]))
        if self.function in {node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)}:
            yield (
                ("function",),
                f"`{self.function}` in {self.file} is `async`; write a function that returns its verdict",
            )
            return
        functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        imported = {a.asname or a.name for node in nodes if isinstance(node, ast.ImportFrom) for a in node.names}
        others = imported | {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if self.function not in functions | others and "*" not in others:
            yield ("function",), f"{self.file} has no function `{self.function}`" + nearest(self.function, functions)

    @functools.cached_property
    def called(self) -> Callable[[list[dict[str, str]], str], Any]:
        """The function.

        Raises:
            UserError: if the file cannot be imported or has no such function.
        """
        module = import_own(self.file)
        found = getattr(module, self.function, None)
        if not callable(found):
            raise UserError(f"{self.file} has no function `{self.function}`")
        return found  # type: ignore[no-any-return]

    def judge_all(self, asked: Sequence[tuple[Messages, str]]) -> list[Verdict]:
        """Return the verdicts; a file that cannot be imported is an error, and not one of each answer.

        Raises:
            UserError: also if the function calls `sys.exit`, and if a label says the opposite of its `p_refusal`: one
                of them is not what it is taken for.
        """
        _ = self.called
        try:
            with contextlib.chdir(os.curdir):  # and back: the paths of a job are relative
                verdicts = super().judge_all(asked)
        except SystemExit as error:  # 0 would end the job as if all were done
            raise UserError(f"{self.file}: `{self.function}` ended the job: {error.code or 'sys.exit()'}") from error
        for verdict in verdicts:
            label, p = verdict.label, verdict.p_refusal
            if label is not None and p is not None and contradicts(p, refused=label != COMPLIANCE):
                raise UserError(
                    f"{self.file}: `{self.function}` returned the label {label} with `p_refusal` {p:g}, which is the "
                    "probability of a refusal or partial refusal, whatever the label is"
                )
        return verdicts

    def judge(self, messages: Messages, answer: str) -> Verdict:
        """Return the verdict on one answer.

        Raises:
            ValueError: if the function returned something else than described.
        """
        value = self.called([dict(message) for message in messages], answer)
        own = "kind" if self.kinds and value is not None else "label"
        fields = dict(value) if isinstance(value, Mapping) else {own: value}
        unknown = set(fields) - {"label", "p_refusal", "kind", "flags", "state", "raw", "quality"}
        label, kind = fields.get("label"), fields.get("kind")
        if self.kinds and (kind, label) != (None, None):
            if kind not in self.kinds or label not in (None, self.kinds[kind]):
                raise ValueError(f"this judge returns one of {', '.join(self.kinds)}; not {value!r}")
            label = self.kinds[kind]
        state = fields.get("state") or (JUDGED if label is not None else UNPARSABLE)
        if unknown or state not in VERDICT_STATES or (label is not None and label not in LABELS):
            labels = ", ".join(LABELS)
            raise ValueError(f"a judge returns one of {labels}, None, or a mapping with `label`; not {value!r}")
        numbers = {name: None if fields.get(name) is None else float(fields[name]) for name in ("p_refusal", "quality")}
        for name, number in numbers.items():
            if number is not None and not 0 <= number <= 1:
                raise ValueError(f"{name} must lie between 0 and 1, not {number!r}")
        if isinstance(fields.get("flags"), str) or not isinstance(kind, str | None):
            raise ValueError(f"`flags` is a list of texts and `kind` a text; not {value!r}")
        flags = tuple(str(flag) for flag in fields.get("flags") or ())
        return Verdict(state, label, kind=kind, flags=flags, raw=_as_json(fields.get("raw") or {}), **numbers)

    def summary(self, words: Words) -> str:
        """Return what it is, for the methods section."""
        return f"a function of our own in {words.quoted(self.file.rsplit('/', 1)[-1])}"


def _as_json(raw: Any) -> dict[str, Any]:
    """Return what a function says for the record, as it is written: here only this answer is lost if it cannot be."""
    if not isinstance(raw, Mapping):
        raise ValueError(f"`raw` is a mapping, not {raw!r}")
    return dict(json.loads(canonical_json(dict(raw))))
