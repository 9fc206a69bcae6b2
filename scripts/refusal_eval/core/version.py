"""Version of refusal-eval. In a module of its own, so that a release does not make every rule run again."""

VERSION = "0.1.0"
