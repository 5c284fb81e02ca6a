#!/usr/bin/env python3
"""The whole step of Algorithm 1 in PyTorch, for `far bench joint --peer`.

A step draws examples, embeds their queries with a frozen encoder, scores the memories of their pools,
recalls K of them, one per chunk, and updates the world model: forward, backward, clipping, AdamW and a
moving average. Every so many steps candidates are credited with the world model's error at several
noise levels and the retriever learns from it.

What a good PyTorch program does is done: all latents and keys stay on the GPU, examples are drawn and memories
scored there in one batch, `torch.compile`, autocast to bf16, fused attention, fused AdamW, credit in
large batches under no_grad. It also computes the first block of a context once for all noise levels and leaves
out what nobody reads in the last one. The loss is the squared error alone, without the learned variance.
Prints one JSON line per case.

    python3 benches/peers/torch_joint.py cuda --config paper-loopnav
    python3 benches/peers/torch_joint.py cpu --config tiny --mode eager --dtype f32
"""
import argparse
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

from torch_rollout import POSE_FEATURES, Block, Network
from turn import await_turn

FEATURES, HIDDEN = 26, 128
EPISODES, EXPLORED, RETURNED = 3, 420, 140


class Setting:
    """A preset's sizes."""

    def __init__(self, config):
        # depth, width, heads, grid, token; encoder depth, width, heads, key
        networks = {
            "paper-loopnav": ((12, 768, 12, 12, 64), (6, 384, 12, 256)),
            "village": ((8, 384, 6, 8, 32), (2, 96, 4, 64)),
            "tiny": ((4, 32, 2, 4, 16), (2, 32, 2, 8)),
        }
        # batch, pool, interval, taught examples, chunk, extra candidates, noise levels
        loops = {
            "paper-loopnav": (128, 200, 20, 128, 10, 0, 4),
            "village": (32, 400, 3, 32, 1, 9, 1),
            "tiny": (4, 40, 2, 4, 10, 0, 2),
        }
        (self.depth, self.width, self.heads, self.grid, self.token), self.encoder = networks[config]
        self.batch, self.pool, self.interval, self.taught, self.chunk, self.extra, self.levels = loops[config]
        self.slots = 3
        self.frames = 2 + self.slots
        self.tokens = self.grid * self.grid


class Encoder(nn.Module):
    """A frame and an action to a direction."""

    def __init__(self, setting):
        super().__init__()
        depth, width, heads, key = setting.encoder
        self.enter = nn.Linear(setting.token, width)
        self.act = nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Linear(width, width))
        self.first = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(setting.tokens, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.leave = nn.Linear(width, key)

    def forward(self, frames, actions):
        tokens = self.enter(frames) + self.positions
        x = torch.cat([self.first.expand(len(frames), -1, -1).to(tokens.dtype), tokens], 1)[:, None]
        condition = F.silu(self.act(actions))[:, None]
        for block in self.blocks:
            x = block(x, condition, False)
        return F.normalize(self.leave(x[:, 0, 0]).float(), dim=-1)


class Retriever(nn.Module):
    """Scores of time and pose, cosines of keys, and a gate between them."""

    def __init__(self, setting):
        super().__init__()
        key = setting.encoder[-1]
        self.meta = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.GELU("tanh"), nn.Linear(HIDDEN, 1), nn.Tanh())
        self.adapter = nn.Sequential(nn.Linear(key, HIDDEN), nn.GELU("tanh"), nn.Linear(HIDDEN, key))
        self.gate = nn.Linear(3, 1)

    def forward(self, features, keys, queries):
        cosine = F.normalize(queries + self.adapter(queries), dim=-1)
        raw = torch.stack([self.meta(features)[..., 0], (keys @ cosine[..., None])[..., 0]], 1)
        mean, spread = raw.mean(-1, keepdim=True), raw.std(-1, keepdim=True) + 1e-6
        statistics = torch.cat([raw.amax(-1, keepdim=True), mean, spread], -1)
        weights = self.gate(statistics).softmax(1)
        return (weights * (raw - mean) / spread).sum(1)


class Loop:
    """Everything that a step needs, on the device."""

    def __init__(self, setting, device, dtype, mode):
        self.setting, self.device = setting, device
        self.cast = lambda: torch.autocast(device, dtype=torch.bfloat16, enabled=dtype == "bf16")
        self.network, self.retriever = Network(setting).to(device), Retriever(setting).to(device)
        self.encoder = Encoder(setting).to(device).requires_grad_(False)
        fused = device == "cuda"
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-4, fused=fused)
        self.teacher = torch.optim.AdamW(self.retriever.parameters(), lr=1e-4, fused=fused)
        self.average = [parameter.detach().clone() for parameter in self.network.parameters()]
        frames = EXPLORED + RETURNED
        self.latents = torch.randn(EPISODES, frames, setting.tokens, setting.token, device=device)
        self.features = torch.randn(EPISODES, EXPLORED, FEATURES, device=device)
        self.keys = F.normalize(torch.randn(EPISODES, EXPLORED, setting.encoder[-1], device=device), dim=-1)
        self.kept = torch.cumprod(1 - torch.linspace(1e-4, 2e-2, 1000, device=device), 0)
        compiled = (lambda call: call) if mode == "eager" else lambda call: torch.compile(call, dynamic=False)
        self.encode, self.score = compiled(self.encoder), compiled(self.retriever)
        self.loss, self.errors = compiled(self.loss_of), compiled(self.errors_of)
        self.lesson = compiled(self.lesson_of)
        self.step_number = 0

    def predict(self, context, noisy, timesteps, poses, times, strides):
        tokens, conditions, target = self.network.context(context, poses, times, strides, True)
        return self.network(noisy, timesteps, tokens, conditions, target, True)

    def loss_of(self, context, future, noise, timesteps, poses, times, strides):
        kept = self.kept[timesteps][:, None, None]
        noisy = kept.sqrt() * future + (1 - kept).sqrt() * noise
        return (self.predict(context, noisy, timesteps, poses, times, strides) - noise).square().mean()

    def errors_of(self, context, noisy, noise, timesteps, poses, times, strides):
        """Errors of candidates [n] at S noise levels each: noisy targets [n, S, T, P]."""
        levels = noisy.shape[1]
        tokens, conditions, target = self.network.context(context, poses, times, strides, True)
        tokens, conditions, target = (part.repeat_interleave(levels, 0) for part in (tokens, conditions, target))
        output = self.network(noisy.flatten(0, 1), timesteps.flatten(), tokens, conditions, target, True)
        return (output.float() - noise.flatten(0, 1)).square().sum((1, 2)).view(-1, levels).mean(1)

    def lesson_of(self, features, keys, queries, candidates, utilities):
        scores = self.retriever(features, keys, queries).gather(1, candidates)
        posterior = (scores.detach() + utilities - utilities.amax(1, keepdim=True)).softmax(1)
        return F.kl_div(scores.log_softmax(1), posterior, reduction="batchmean")

    def conditions(self, count, frames):
        random = lambda *sizes: torch.randn(*sizes, device=self.device)
        return random(count, frames, 2 * POSE_FEATURES), random(count, frames), random(count)

    @torch.no_grad()
    def draw(self):
        """Examples, their pools and what is recalled."""
        setting, device = self.setting, self.device
        episode = torch.randint(EPISODES, (setting.batch,), device=device)
        now = torch.randint(EXPLORED, EXPLORED + RETURNED, (setting.batch,), device=device)
        goal = torch.randint(EXPLORED, EXPLORED + RETURNED, (setting.batch,), device=device)
        pool = torch.rand(setting.batch, EXPLORED, device=device).topk(setting.pool, 1).indices.sort(1).values
        with self.cast():
            queries = self.encode(self.latents[episode, now], torch.randn(setting.batch, 8, device=device))
        features, keys = self.features[episode[:, None], pool], self.keys[episode[:, None], pool]
        scores = self.score(features, keys, queries)
        chunks = scores.view(setting.batch, -1, setting.chunk)
        best, inside = chunks.max(2)
        chosen = best.topk(setting.slots, 1).indices
        places = chosen * setting.chunk + inside.gather(1, chosen)
        return episode, now, goal, pool, queries, features, keys, places

    def update(self, drawn):
        setting = self.setting
        episode, now, goal, pool, _, _, _, places = drawn
        frames = torch.cat([now[:, None], pool.gather(1, places)], 1)
        context, future = self.latents[episode[:, None], frames], self.latents[episode, goal]
        timesteps = torch.randint(1000, (setting.batch,), device=self.device)
        with self.cast():
            loss = self.loss(context, future, torch.randn_like(future), timesteps,
                             *self.conditions(setting.batch, setting.frames))
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        torch._foreach_lerp_(self.average, list(self.network.parameters()), 1e-4)
        return loss.detach()

    @torch.no_grad()
    def candidates(self, drawn):
        """Recalled, the rest of a chunk, and some more: places in the pool."""
        setting, places = self.setting, drawn[-1][: self.setting.taught]
        start = places[:, :1] // setting.chunk * setting.chunk
        rest = start + torch.arange(setting.chunk, device=self.device)
        more = torch.randint(setting.pool, (len(places), setting.extra), device=self.device)
        return torch.cat([places, rest[:, 1:], more], 1)

    @torch.no_grad()
    def credit(self, drawn, candidates):
        setting = self.setting
        episode, now, goal, pool = (part[: setting.taught] for part in drawn[:4])
        memories = pool.gather(1, candidates)
        count = memories.shape[1]
        frames = torch.stack([now[:, None].expand(-1, count), memories], 2)
        context = self.latents[episode[:, None, None], frames].flatten(0, 1)
        future = self.latents[episode, goal][:, None]
        sizes = (len(episode), setting.levels, setting.tokens, setting.token)
        noise = torch.randn(sizes, device=self.device)
        timesteps = torch.randint(1000, sizes[:2], device=self.device)
        kept = self.kept[timesteps][..., None, None]
        noisy = kept.sqrt() * future + (1 - kept).sqrt() * noise
        noisy, noise, timesteps = (part.repeat_interleave(count, 0) for part in (noisy, noise, timesteps))
        told = self.conditions(len(context), 3)
        parts = max(1, len(context) * setting.levels * 3 * setting.tokens * setting.width >> 27)
        while len(context) % parts:
            parts += 1
        size = len(context) // parts
        with self.cast():
            errors = [
                self.errors(*(part[at : at + size] for part in (context, noisy, noise, timesteps, *told)))
                for at in range(0, len(context), size)
            ]
        return -0.5 * torch.cat(errors).view(-1, count)

    def teach(self, drawn):
        taught = self.setting.taught
        candidates = self.candidates(drawn)
        utilities = self.credit(drawn, candidates)
        _, _, _, _, queries, features, keys, _ = (part[:taught] for part in drawn)
        loss = self.lesson(features, keys, queries, candidates, utilities)
        loss.backward()
        nn.utils.clip_grad_norm_(self.retriever.parameters(), 1.0, foreach=True)
        self.teacher.step()
        self.teacher.zero_grad(set_to_none=True)

    def step(self):
        self.step_number += 1
        drawn = self.draw()
        loss = self.update(drawn)
        if self.step_number % self.setting.interval == 0:
            self.teach(drawn)
        return loss


def measure(arguments):
    device = arguments.device
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    torch.backends.cuda.matmul.allow_tf32 = arguments.dtype == "tf32"
    torch.manual_seed(0)
    setting = Setting(arguments.config)
    for change in arguments.encoder:
        setting.encoder = tuple(int(size) for size in change.split(","))
    loop = Loop(setting, device, arguments.dtype, arguments.mode)

    def timed(work, count):
        times = []
        for _ in range(count):
            wait()
            start = time.perf_counter()
            work()
            wait()
            times.append(time.perf_counter() - start)
        return sorted(times)[count // 2]

    def round_of_steps():
        for _ in range(setting.interval):
            loop.step().item()

    began = time.perf_counter()
    round_of_steps()
    first = time.perf_counter() - began
    await_turn(arguments.turns, arguments.config)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    step = timed(round_of_steps, arguments.rounds) / setting.interval
    drawn = loop.draw()
    candidates = loop.candidates(drawn)
    result = {"engine": "torch" if arguments.mode == "eager" else "torch-compile", "version": torch.__version__}
    result |= {"device": device, "dtype": arguments.dtype, "config": arguments.config, "arm": "far-multi"}
    result |= {"first_round_s": first, "median_s": step, "draw_s": timed(loop.draw, 5)}
    result |= {"network_s": timed(lambda: loop.update(drawn), 5), "credit_s": timed(lambda: loop.credit(drawn, candidates), 3)}
    if device == "cuda":
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
    print(json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("--config", choices=["paper-loopnav", "village", "tiny"], default="paper-loopnav")
    parser.add_argument("--encoder", action="append", default=[], metavar="DEPTH,WIDTH,HEADS,KEY")
    parser.add_argument("--dtype", choices=["bf16", "tf32", "f32"], default="bf16")
    parser.add_argument("--mode", choices=["eager", "compile"], default="compile")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", metavar="FOLDER", help="compile, then wait there for CONFIG.go")
    arguments = parser.parse_args()
    try:
        measure(arguments)
    except RuntimeError as problem:
        sys.exit(f"{arguments.config}: {problem}")


if __name__ == "__main__":
    main()
