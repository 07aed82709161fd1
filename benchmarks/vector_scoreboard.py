"""Which vector environments keep Gymnasium's contract?

``python -m benchmarks.vector_scoreboard --json results.json NAME ...`` checks subjects and adds them to the
file; ``--table results.json`` prints it as Markdown. Libraries that cannot be installed together are checked
in environments of their own, one after the other. docs/vector-scoreboard.md has the outcome.
"""

from __future__ import annotations

import argparse
import json
import logging
import textwrap
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from openenv_gym.testing import VectorEnvCheckError, check_vector_env
from openenv_gym.testing.vector import RULES

LANES = 3
LONGEST = 180
WIDTH = 110
SIGNS = {"kept": "✓", "violated": "✗", "not checked": "–"}


class TextEnv(gym.Env[Any, Any]):
    """Observes text; episodes have some steps, more in every second one."""

    observation_space = gym.spaces.Text(8)
    action_space = gym.spaces.Discrete(4)

    def __init__(self) -> None:
        self._left = self._length = 3

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._length = 3 if seed is not None else 8 - self._length
        self._left = self._length
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self._left -= 1
        return self._observe(), float(action), self._left == 0, False, {"left": self._left}

    def _observe(self) -> str:
        letters = self.np_random.integers(97, 123, 8)
        return "".join(map(chr, letters))


class FromVecEnv(VectorEnv[Any, Any, Any]):
    """Stable-Baselines3's VecEnv, as what it is: lanes are reset in the step that ends their episode."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._envs = make()
        self.num_envs = self._envs.num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.single_observation_space = self._envs.observation_space
        self.single_action_space = self._envs.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        if options is not None and "reset_mask" in options:
            raise TypeError("VecEnv.reset() resets all lanes")
        if isinstance(seed, int):
            self._envs.seed(seed)
        elif seed is not None:
            raise TypeError("VecEnv.seed() takes an int")
        self._envs.set_options(options)
        return self._envs.reset(), self._batched(self._envs.reset_infos)

    def step(self, actions: Any) -> Any:
        observations, rewards, dones, infos = self._envs.step(actions)
        infos = list(infos)
        truncated = np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
        for lane in np.flatnonzero(dones):
            final = infos[lane]
            last = final.pop("terminal_observation")
            infos[lane] = {"final_obs": last, "final_info": final, **self._envs.reset_infos[lane]}
        return observations, rewards, dones & ~truncated, dones & truncated, self._batched(infos)

    def close_extras(self, **kwargs: Any) -> None:
        self._envs.close()

    def _batched(self, infos: Iterable[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = {}
        for lane, info in enumerate(infos):
            batch = self._add_info(batch, info, lane)
        return batch


def cartpole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1", disable_env_checker=True)


def sync(autoreset_mode: str) -> VectorEnv[Any, Any, Any]:
    return gym.make_vec(
        "CartPole-v1",
        LANES,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": autoreset_mode},
        render_mode="rgb_array",
    )


def async_shared(autoreset_mode: str) -> VectorEnv[Any, Any, Any]:
    return AsyncVectorEnv([TextEnv] * LANES, autoreset_mode=autoreset_mode)


def async_piped(autoreset_mode: str) -> VectorEnv[Any, Any, Any]:
    return AsyncVectorEnv([TextEnv] * LANES, shared_memory=False, autoreset_mode=autoreset_mode)


def cartpole_vector() -> VectorEnv[Any, Any, Any]:
    return gym.make_vec("CartPole-v1", LANES, render_mode="rgb_array")


def atari(autoreset_mode: str) -> VectorEnv[Any, Any, Any]:
    import ale_py

    gym.register_envs(ale_py)
    return gym.make_vec("ALE/Breakout-v5", LANES, autoreset_mode=autoreset_mode)


def envpool() -> VectorEnv[Any, Any, Any]:
    import envpool

    made: VectorEnv[Any, Any, Any] = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=LANES)
    return made


def dummy() -> VectorEnv[Any, Any, Any]:
    from stable_baselines3.common.vec_env import DummyVecEnv

    return FromVecEnv(lambda: DummyVecEnv([cartpole] * LANES))


def subprocesses() -> VectorEnv[Any, Any, Any]:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    return FromVecEnv(lambda: SubprocVecEnv([cartpole] * LANES))


def remote(autoreset_mode: str) -> VectorEnv[Any, Any, Any]:
    import openenv_gym  # noqa: F401 - registers the ids

    return gym.make_vec("remote/CartPole-v1", LANES, autoreset_mode=autoreset_mode, render_mode="rgb_array")


class Subject(NamedTuple):
    title: str
    package: str
    make: Callable[..., VectorEnv[Any, Any, Any]]
    options: dict[str, Any]


SUBJECTS = {
    "sync": Subject("SyncVectorEnv", "gymnasium", sync, {}),
    "async": Subject("AsyncVectorEnv", "gymnasium", async_shared, {"steps": 40}),
    "async-piped": Subject("AsyncVectorEnv, shared_memory=False", "gymnasium", async_piped, {"steps": 40}),
    "cartpole": Subject("CartPoleVectorEnv", "gymnasium", cartpole_vector, {}),
    "atari": Subject("AtariVectorEnv", "ale-py", atari, {"steps": 400}),
    "envpool": Subject("EnvPool", "envpool", envpool, {}),
    "dummy": Subject("DummyVecEnv", "stable-baselines3", dummy, {"reference": cartpole}),
    "subproc": Subject("SubprocVecEnv", "stable-baselines3", subprocesses, {"reference": cartpole}),
    "remote": Subject("RemoteVectorEnv", "openenv-gym", remote, {"reference": cartpole}),
}


def examine(name: str) -> dict[str, Any]:
    """Return what is to be known of a subject: outcomes, first problems, versions."""
    subject = SUBJECTS[name]
    try:
        report = check_vector_env(subject.make, **subject.options)
    except VectorEnvCheckError as exc:
        report = exc.report
    problems = {item.rule: _line(f"[{item.mode}] {item.problem}") for item in reversed(report.violations)}
    return {
        "title": subject.title,
        "version": f"{subject.package} {version(subject.package)}",
        "gymnasium": gym.__version__,
        "outcomes": {rule.name: report.outcome(rule.name) for rule in RULES},
        "problems": problems,
        "modes": list(report.modes),
    }


def _line(text: str) -> str:
    """Return ``text`` as one short line."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def table(results: dict[str, Any]) -> list[str]:
    """Return the lines of a table in Markdown, subjects in columns, and of a list of first problems."""
    found = [results[name] for name in SUBJECTS if name in results]
    lines = ["| rule | " + " | ".join(f"{item['title']} ({item['version']})" for item in found) + " |"]
    lines.append("|---|" + ":-:|" * len(found))
    for rule in RULES:
        signs = [SIGNS[item["outcomes"][rule.name]] for item in found]
        lines.append(f"| `{rule.name}` | " + " | ".join(signs) + " |")
    kept = [f"{sum(value == 'violated' for value in item['outcomes'].values())}" for item in found]
    lines += ["| violated | " + " | ".join(kept) + " |", ""]
    for item in found:
        if item["problems"]:
            lines += [f"**{item['title']}**", ""]
            problems = [f"* `{rule}`: {text}" for rule, text in sorted(item["problems"].items())]
            lines += [textwrap.fill(text, WIDTH, subsequent_indent="  ") for text in problems]
            lines.append("")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", metavar="NAME", nargs="*", choices=[*SUBJECTS, []], help=", ".join(SUBJECTS))
    parser.add_argument("--json", type=Path, help="the file to add results to")
    parser.add_argument("--table", type=Path, help="print this file as a table")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    if args.table:
        print("\n".join(table(json.loads(args.table.read_text(encoding="utf-8")))))
        return
    results = json.loads(args.json.read_text(encoding="utf-8")) if args.json and args.json.exists() else {}
    for name in args.names:
        results[name] = examine(name)
        print(name, {key: value for key, value in results[name]["outcomes"].items() if value != "kept"})
    if args.json:
        args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
