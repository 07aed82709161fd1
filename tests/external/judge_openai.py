"""Judges with both clients of the openai package; prints their scores."""

from __future__ import annotations

import asyncio
import json
import sys

import openai

from openenv_gym.rubrics import LLMJudge

base_url, request = f"{sys.argv[1]}/v1", json.loads(sys.argv[2])
clients = (
    openai.OpenAI(base_url=base_url, api_key="none"),
    openai.AsyncOpenAI(base_url=base_url, api_key="none"),
)


async def main() -> list[float]:
    judges = [LLMJudge("Rate: {action}", client, model="smollm2", request=request) for client in clients]
    return [await judge("Paris", None) for judge in judges]


print(json.dumps(asyncio.run(main())))
