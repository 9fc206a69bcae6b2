"""Engines: how weights are served and asked. A job asks a `RunningEngine` (engine_base.py).

It is larger than other rooms: half of it sees to it that a server ends with its job however that ends, that what killed
runs left behind is found and ended, that no two jobs take one GPU, and that none executes what another one does.
"""
