"""Draws what bench_vector measured; ``python -m benchmarks.vector_plot FIGURES.json FILE`` draws it later."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

__all__ = ["draw"]

Rates = dict[str, list[float]]
#: Ways, what the picture calls them, and their colours.
LABELS = {
    "sync": ("SyncVectorEnv", "#7f7f7f"),
    "vector": ("its own vector class, local", "#bcbd22"),
    "async": ("AsyncVectorEnv", "#d62728"),
    "OpenEnv": ("OpenEnv", "#9467bd"),
    "1 worker": ("remote, 1 worker", "#9ecae1"),
    "2 workers": ("remote, 2 workers", "#2171b5"),
    "served": ("its own vector class, remote", "#2ca02c"),
}


def draw(found: dict[str, Rates], path: str) -> None:
    """Write a picture of lane steps per second.

    Args:
        found: Rates of each way, by the name of the case.
        path: Where to; the ending says in which format.
    """
    with plt.rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "openenv"}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
        _draw_lanes(left, found)
        _draw_cases(right, found)
        handles = {label: handle for axes in (left, right) for handle, label in _legend(axes)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.endswith(".svg") else None)
        plt.close(figure)


def _legend(axes: Axes) -> list[tuple[Any, str]]:
    return list(zip(*axes.get_legend_handles_labels(), strict=True))


def _draw_lanes(axes: Axes, found: dict[str, Rates]) -> None:
    """Draw CartPole's lanes per second by their number."""
    points: dict[str, dict[int, float]] = {}
    for name, rates in found.items():
        env, _, rest = name.partition(", ")
        if env == "CartPole":
            for way, values in rates.items():
                if way in LABELS:
                    points.setdefault(way, {})[int(rest.split()[0])] = statistics.median(values)
    for way, line in points.items():
        label, color = LABELS[way]
        lanes = sorted(line)
        axes.plot(lanes, [line[n] for n in lanes], "o-", color=color, label=label, markersize=4)
    axes.set(xscale="log", yscale="log", xlabel="lanes", ylabel="lane steps per second", title="CartPole")
    axes.set_xticks([8, 64, 256, 1024], ["8", "64", "256", "1,024"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def _draw_cases(axes: Axes, found: dict[str, Rates]) -> None:
    """Draw bars for the other environments."""
    ticks, names, at = [], [], 0.0
    for name, rates in found.items():
        if name.startswith("CartPole"):
            continue
        shown = [way for way in rates if way in LABELS]
        for way in shown:
            label, color = LABELS[way]
            value = statistics.median(rates[way])
            axes.barh(at, value, color=color, label=label, height=0.9)
            axes.text(value * 1.1, at, f"{value:,.0f}", va="center", fontsize=7)
            at += 1
        ticks.append(at - (len(shown) + 1) / 2)
        names.append(name.replace(", 8 lanes", "").replace(", ", ",\n"))
        at += 0.8
    axes.set(xscale="log", xlabel="lane steps per second", title="8 lanes")
    axes.set_yticks(ticks, names)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main() -> None:
    """Draw what ``bench_vector --json`` wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures")
    parser.add_argument("path")
    args = parser.parse_args()
    figures = json.loads(Path(args.figures).read_text(encoding="utf-8"))["figures"]
    draw(figures["lane steps per second"], args.path)


if __name__ == "__main__":
    main()
