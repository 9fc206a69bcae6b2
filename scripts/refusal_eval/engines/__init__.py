"""Engines: how weights are served and asked. One interface, `refusal_eval.engines.engine_base.Engine`."""
