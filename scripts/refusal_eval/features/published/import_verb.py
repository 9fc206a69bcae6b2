"""The verb `import`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class ImportVerb(Verb):
    """A study made from a config of the published library."""

    name = "import"
    does = "make a study from a config of the published library"

    @staticmethod
    def command() -> Command:
        from refusal_eval.features.published.import_command import command

        return command
