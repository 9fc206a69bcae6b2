"""Language models on transformers with eager attention: an engine in which attention can be changed."""

ENGINES = {"eager": "eager_engine:EagerEngine"}
