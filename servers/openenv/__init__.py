"""OpenEnv's JSON wire: WebSocket and HTTP, on top of sessions in workers."""
