"""What became of the rows that writers were asked for."""

from typing import Any

from refusal_eval.features.written.measure_written import measure, methods_words
from refusal_eval.features.written.written_rows import WrittenRows
from refusal_eval.workflow.analysis import Analysis
from refusal_eval.workflow.data_stage import answer_files


class WrittenAnalysis(Analysis):
    """All splits of kind `written` of a study, also those that only make others."""

    name = "written"
    measure = staticmethod(measure)
    methods_words = staticmethod(methods_words)

    def _splits(self) -> dict[str, WrittenRows]:
        entries = sorted(self.study.entries("split").items())
        return {name: split.source for name, split in entries if isinstance(split.source, WrittenRows)}

    def wanted(self) -> bool:
        return bool(self._splits())

    def own_files(self) -> list[str]:
        return sorted({file for source in self._splits().values() for file in source.files()})

    def inputs(self) -> dict[str, list[str]]:
        return {"read": [file for name in self._splits() for file in answer_files(self.study, name)]}

    def params(self) -> dict[str, Any]:
        return {
            "splits": {
                name: {"source": source.param(), "files": len(answer_files(self.study, name))}
                for name, source in self._splits().items()
            }
        }
