"""CartPole through OpenEnv's own client and server; runs in a virtual environment that has ``openenv``."""
