"""The verb `export`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class ExportVerb(Verb):
    """A finished study in the published library's layout."""

    name = "export"
    does = "write a finished study in the published library's layout"

    @staticmethod
    def command() -> Command:
        from refusal_eval.features.published.export_command import command

        return command
