"""The verb `bench-judges`, as the program lists it."""

from refusal_eval.program.verb import Command, Verb


class BenchJudgesVerb(Verb):
    """Judges ranked on gold."""

    name = "bench-judges"
    does = "measure a study's judges on its gold, rank them, and write a page"

    @staticmethod
    def command() -> Command:
        from refusal_eval.tools.bench.bench_command import command

        return command
