"""Plays an episode with a client generated from the document; runs where that client's needs are installed.

Arguments: the folder of the generated package ``generated``, and the server's URL.
"""

from __future__ import annotations

import json
import sys

sys.path.insert(0, sys.argv[1])

from generated.api.environment_control import reset, step
from generated.api.state_management import state
from generated.client import Client
from generated.models import Guess, ResetRequest, StepRequest

client = Client(base_url=sys.argv[2])
begun = reset.sync_detailed(client=client, body=ResetRequest(seed=3))
session = begun.headers["openenv-session"]
refused = step.sync(
    client=client, body=StepRequest.from_dict({"action": {"number": 500}}), open_env_session=session
)
low, high, steps, done = 1, 100, 0, False
while not done:
    guess = (low + high) // 2
    answer = step.sync(client=client, body=StepRequest(action=Guess(number=guess)), open_env_session=session)
    steps, done = steps + 1, answer.done
    low, high = (guess + 1, high) if answer.observation.text == "more" else (low, guess - 1)
stands = state.sync(client=client, open_env_session=session)
print(
    json.dumps(
        {
            "first": begun.parsed.observation.text,
            "refused": refused.detail[0].loc,
            "last": [answer.observation.text, answer.reward],
            "steps": [steps, stands.step_count],
        }
    )
)
