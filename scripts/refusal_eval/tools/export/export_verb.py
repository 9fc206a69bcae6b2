"""The verb `export`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class ExportVerb(Verb):
    """A finished study in a form that others read."""

    name = "export"
    does = "write a finished study for other programs: inspect, the hub, the published library"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.export.export_command import command

        return command
