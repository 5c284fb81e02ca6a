"""Recall quality of several runs together, each of its own walks: what they gain over what the oracle gains.

`far compare --merge` wants the same walks under all seeds; here every run has recorded its own. Intervals are 95 %, over runs
and, in each, over walks.

    python benches/several_seeds.py runs/own-8 runs/own-9 runs/own-10
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

DRAWS = 2000


def gains(run: Path, arm: str) -> np.ndarray | None:
    """What the arm and the oracle gain on each walk, [walks, 2]; None where its recall was not judged."""
    measured = json.loads((run / "scores" / f"{arm}.json").read_text())["measured"]
    if "recall_quality" not in measured["values"]:
        return None
    pairs = [measured[part]["recall_quality"] for part in ("values", "divisors")]
    return np.nan_to_num(np.array(pairs, dtype=float).T)  # a walk without a question has neither


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders that `own_world_model.py` wrote")
    runs: list[Path] = parser.parse_args().runs
    arms = {arm: [gains(run, arm) for run in runs] for arm in sorted(path.stem for path in (runs[0] / "scores").glob("*.json"))}
    judged = {arm: found for arm, found in arms.items() if all(one is not None for one in found)}
    share = lambda pairs: pairs[..., 0] / pairs[..., 1]  # noqa: E731
    random, drawn = np.random.default_rng(0), {arm: np.zeros((DRAWS, 2)) for arm in judged}
    for draw in range(DRAWS):
        for run in random.integers(0, len(runs), len(runs)):
            walks = random.integers(0, len(judged["oracle"][run]), len(judged["oracle"][run]))
            for arm, found in judged.items():
                drawn[arm][draw] += found[run][walks].sum(0)
    whole = {arm: share(np.sum([one.sum(0) for one in found], 0)) for arm, found in judged.items()}
    interval = lambda values: "{:.2f} to {:.2f}".format(*np.percentile(values, [2.5, 97.5]))  # noqa: E731
    print(f"{sum(len(one) for one in judged['oracle'])} walks of {len(runs)} runs: recall quality, far-multi minus it")
    for arm in sorted(judged, key=lambda arm: -whole[arm]):
        ahead = share(drawn["far-multi"]) - share(drawn[arm])
        gap = "" if arm == "far-multi" else f"   {whole['far-multi'] - whole[arm]:+.2f} ({interval(ahead)})"
        print(f"{arm:20s} {whole[arm]:5.2f} ({interval(share(drawn[arm]))}){gap}")


if __name__ == "__main__":
    main()
