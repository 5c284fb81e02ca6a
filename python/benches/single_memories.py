"""How good single memories are that `own_world_model.py` learned to recall, beside rules.

    (mean utility of the recalled − mean of all) / (mean of the best − mean of all)

The utility of a memory is minus the loss with it as the only context. The best are the best of all, since the retriever has no
chunk rule; "by chunk" is against the best of as many chunks, which is no bound for it. An oracle of whole sets, as in
`evaluate`, is stricter than both.
Records and trains as the example does; nine minutes.

    python benches/single_memories.py --seed 5 --folder runs/single
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from own_world_model import Tokenizer, Walk, WorldModel, train

from far_memory import Convention, Policy, Queries, rules
from far_memory.worlds import record

QUESTIONS, HORIZON, CHUNK = 12, 32, 4
RULES = [rule for rule in rules() if rule not in ("far", "none", "oracle", "random")]


@torch.no_grad()
def utilities(model: WorldModel, walk: Walk, now: int, goal: int) -> np.ndarray:
    """Of every memory of a walk, [N]."""
    kept = torch.from_numpy(walk.remembered)
    alone = walk.latents[kept][:, None], walk.poses[kept][:, None], torch.ones(len(kept), 1, dtype=torch.bool)
    spread = [one.expand(len(kept), *one.shape) for one in (walk.latents[now], walk.poses[now], walk.poses[goal])]
    return -(model(*spread, *alone) - walk.latents[goal]).square().mean((1, 2)).numpy()


def gains(model: WorldModel, walk: Walk, policies: dict[str, str | Policy], k: int, random: np.random.Generator) -> np.ndarray:
    """What each policy, the best memories and the best of chunks gain over the mean, summed over questions, [policies + 2]."""
    total = np.zeros(len(policies) + 2)
    for _ in range(QUESTIONS):
        now = int(random.integers(walk.boundary, len(walk.times) - 1))
        goal = min(now + int(random.integers(1, HORIZON + 1)), len(walk.times) - 1)
        worth = utilities(model, walk, now, goal)
        pose, target = ((walk.poses[frame, None, :3], walk.poses[frame, None, 3:]) for frame in (now, goal))
        times, stride = walk.times[now : now + 1], walk.times[goal : goal + 1] - walk.times[now]
        vision = {"vision": walk.keys[now][None]}
        asked = Queries(time=times, pose=pose, goal=target, convention=Convention.native(), keys=vision, stride=stride)
        recalled = [walk.memory.recall(policy, asked, k).ids[0] for policy in policies.values()]
        chunks = sorted((worth[first : first + CHUNK].max() for first in range(0, len(worth), CHUNK)), reverse=True)
        best = np.sort(worth)[-k:].mean(), np.mean(chunks[:k])
        total += np.array([*(worth[ids[ids >= 0]].mean() for ids in recalled), *best]) - worth.mean()
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/single"))
    for name, value in {"seed": 5, "episodes": 280, "steps": 4500, "size": 32}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    torch.set_num_threads(1)
    dataset = record("village", given.folder / "villages", variant="static", episodes=given.episodes, seed=given.seed, size=given.size)
    training = dataset.select("train")
    tokenizer = Tokenizer(np.concatenate([dataset.episode(id).frames(range(0, dataset.lengths(id)[0], 12)) for id in training]))
    model = WorldModel(tokenizer, np.radians(dataset.description["field_of_view"]["horizontal_degrees"]))
    retriever = train([Walk(dataset, id, tokenizer) for id in training], model, given.steps, 32, given.seed)
    policies: dict[str, str | Policy] = {"far-multi": retriever.policy(), **{rule: rule for rule in RULES}}
    held_out = [Walk(dataset, id, tokenizer) for id in dataset.select("test")]
    draws = np.random.default_rng(0).integers(0, len(held_out), (2000, len(held_out)))
    for k in (2, 3):
        random = np.random.default_rng(k)
        found = np.stack([gains(model, walk, policies, k, random) for walk in held_out])
        whole, resampled = found.sum(0), found[draws].sum(1)
        print(f"{k} memories: quality, far-multi minus it, quality by chunk")
        for place, name in enumerate(policies):
            shares = [
                (table[..., place] / table[..., -2], (table[..., 0] - table[..., place]) / table[..., -2], table[..., place] / table[..., -1])
                for table in (whole, resampled)
            ]
            columns = [(mean, *np.percentile(spread, [2.5, 97.5])) for mean, spread in zip(*shares)]
            print(f"{name:20s}", *(f"{mean:6.2f} [{low:.2f}, {high:.2f}]" for mean, low, high in columns))


if __name__ == "__main__":
    main()
