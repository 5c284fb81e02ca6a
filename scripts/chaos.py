#!/usr/bin/env python3
"""Disturbs `far` at random and compares what it makes in the end with what it makes undisturbed.

    python3 scripts/chaos.py --far target/release/far --disturbances 300 --seed 0

Every verb (record, pretrain, train, compare, eval, report) is started, disturbed and started again, until it ends by
itself. A disturbance is a kill (SIGKILL), a Ctrl-C (SIGINT), a full disk (no file may grow beyond a random size) or a
torn file (cut short or altered after the program ended). Then datasets, tensors and results must be those of an
undisturbed run, byte by byte where the format has no clock, and no unfinished file may be left. No message may ask
for --fresh.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SETTINGS = [
    "data.batch=4", "retriever.queries=4", "world_model={ depth = 2, width = 16, heads = 2 }",
    "encoder={ depth = 1, width = 16, heads = 2, key = 8 }", "encoder.pretraining={ steps = 20, batch = 4 }",
    "tokenizer.patch_pca={ resolution = [16, 16], patch = 8, channels = 8, frames = 100 }",
    "training={ steps = 60, checkpoint_every = 5, keep_checkpoints = 3, evaluate_every = 20 }",
    "evaluation={ clips = 2, clips_in_training = 1, questions = 1, utility_pool = 4, utility_levels = 1, replays = 1 }",
    "evaluation.sampler.steps=2", "evaluation.most_steps=3", "utility.levels=1",
]
# Exit statuses that a disturbance may cause: success, failure, Ctrl-C, SIGKILL, SIGINT.
EXPECTED = {0, 1, 130, -signal.SIGKILL, -signal.SIGINT}
VOLATILE = {"environment.json", "command.txt"}


class Verb:
    """A command, the folder or file that it makes, and what may be torn in it."""

    def __init__(self, name, words, out, torn=()):
        self.name, self.words, self.out, self.torn = name, words, out, torn


def verbs(root):
    sets = [word for setting in SETTINGS for word in ("--set", setting)]
    data, run = root / "data", root / "run"
    common = ["--config", "quick", "--data", str(data)]
    compare = ["--arm", "far-multi", "--arm", "none", "--jobs", "2", "--out", str(root / "comparison")]
    return [
        Verb("record", ["world", "record", "--world", "village", "--episodes", "10", "--size", "16",
                        "--threads", "2", "--out", str(data)], data, ("episodes/*.arrow", "episodes.arrow")),
        Verb("pretrain", ["pretrain", *common, *sets, "--out", str(root / "encoder.safetensors")],
             root, ("encoder.safetensors.partial",)),
        Verb("train", ["train", *common, *sets, "--out", str(run)], run,
             ("metrics.jsonl", "environment.json", "tokenizer.safetensors", "encoder-vision.safetensors",
              "checkpoints/newest", "../data/cache/*/*.safetensors")),
        Verb("compare", ["compare", *common, *sets, *compare], root / "comparison",
             ("judge/checkpoints/newest", "arms/*/checkpoints/newest", "arms/*/encoder-vision.safetensors",
              "judge/environment.json", "results.json")),
        Verb("eval", ["eval", str(run), "--rule", "nearest-pose"], run, ("results.json", "replays/*.json")),
        Verb("report", ["report", str(run)], run, ("report/index.html",)),
    ]


def start(far, verb, limit=None):
    """Starts a verb; with a limit, no file may grow beyond so many bytes."""
    def prepare():
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return subprocess.Popen([far, *verb.words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, preexec_fn=prepare, restore_signals=limit is None)


def finish(far, verb):
    """Runs a verb to its end; returns its seconds."""
    begun = time.monotonic()
    process = start(far, verb)
    _, errors = process.communicate(timeout=600)
    if process.returncode != 0 or "--fresh" in errors:
        sys.exit(f"{verb.name} ended with {process.returncode} after disturbances:\n{errors}")
    return time.monotonic() - begun


def tear(verb, chance):
    """Cuts a random file short or alters a byte of it; returns its name, or None if there is none."""
    pattern = chance.choice(verb.torn)
    if pattern.endswith("newest"):
        folders = [verb.out] if pattern.startswith("checkpoints") else list(verb.out.glob(pattern.split("checkpoints")[0]))
        # Never the only one: nothing could be resumed from.
        lists = [sorted((folder / "checkpoints").glob("step-*.safetensors")) for folder in folders]
        files = [files[-1] for files in lists if len(files) > 1]
    else:
        files = sorted((verb.out / pattern).resolve().parent.parent.glob("*/*.safetensors")) if pattern.startswith("..") \
            else sorted(verb.out.glob(pattern))
    files = [file for file in files if file.is_file() and file.stat().st_size > 0]
    if not files:
        return None
    path = chance.choice(files)
    content = bytearray(path.read_bytes())
    altered = path.suffix in (".safetensors", ".arrow") and "cache" not in path.parts
    if path.name == "metrics.jsonl":
        # It is appended to: a crash tears its last line, and what was synced before a checkpoint stays.
        content += b'{"kind":"step","step":' + b"0" * chance.randrange(9)
    elif altered and chance.random() < 0.5:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    else:
        del content[chance.randrange(len(content)):]
    path.write_bytes(content)
    return path.name


def disturb(far, verb, seconds, chance, counts, log):
    """One start that is disturbed, and perhaps a file that is torn afterwards."""
    kind = chance.choice(["kill", "interrupt", "full disk", "torn file"])
    limit = chance.choice([0, 1, 100, 4096, 20_000, 60_000, 200_000]) if kind == "full disk" else None
    process = start(far, verb, limit)
    group = "finished first"
    try:
        if kind in ("kill", "interrupt", "torn file"):
            _, errors = process.communicate(timeout=chance.uniform(0, 1.1 * seconds))
        else:
            _, errors = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT if kind == "interrupt" else signal.SIGKILL)
        group = "interrupted" if kind == "interrupt" else "killed"
        _, errors = process.communicate(timeout=600)
    status = process.returncode
    torn = tear(verb, chance) if kind == "torn file" and verb.torn else None
    log.write(f"{verb.name}: {kind}: {group}, status {status}, torn {torn}, limit {limit}\n{errors}\n")
    log.flush()
    if status not in EXPECTED or "panicked" in errors or "--fresh" in errors:
        sys.exit(f"{verb.name}, {kind}: status {status}\n{errors}")
    # The signal may come before `main`: the system then ends the process, which a shell reports as 130 too.
    unstarted = status == -signal.SIGINT and not errors
    if group == "interrupted" and status not in (0, 130) and not unstarted:
        sys.exit(f"{verb.name}: status {status} after Ctrl-C\n{errors}")
    counts[verb.name, kind] += 1
    counts["torn"] += torn is not None
    counts[group] += 1


def contents(root):
    """Every file that must be the same, by its name, with everything that has a clock taken out."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        skip = path.name in VOLATILE or path.name.endswith(("lock", ".log")) or "/cache/" in f"/{name}"
        # What a kill leaves of a file that was being written must be gone, in caches too.
        unfinished = path.name.endswith(".partial") or path.name.startswith(".tmp")
        if (skip and not unfinished) or not path.is_file() or path.name == "index.html":
            continue
        content = path.read_bytes()
        if path.name == "results.json" or path.parent.name == "scores":
            results = json.loads(content)
            results.pop("train_seconds", None)
            content = json.dumps(results, sort_keys=True).encode()
        found[name] = content.replace(str(root).encode(), b"ROOT")
    # An interruption saves a checkpoint of its own, which shifts the older ones that are kept: the newest counts.
    newest = {}
    for name in found:
        folder, _, file = name.rpartition("/")
        if folder.endswith("checkpoints"):
            newest[folder] = max(newest.get(folder, ""), file)
    return {
        name: content
        for name, content in found.items()
        if name.rpartition("/")[0] not in newest or newest[name.rpartition("/")[0]] == name.rpartition("/")[2]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--far", default="target/release/far")
    parser.add_argument("--disturbances", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    far = str(pathlib.Path(arguments.far).resolve())
    chance = random.Random(arguments.seed)
    counts = collections.Counter()
    work = pathlib.Path(tempfile.mkdtemp(prefix="far-chaos-"))
    log = open(work / "log.txt", "w")
    print(f"working in {work}", flush=True)
    # The same path for both, so that it is the same in every file.
    root, whole = work / "disturbed", work / "whole"
    root.mkdir()
    seconds = {verb.name: finish(far, verb) for verb in verbs(root)}
    expected = contents(root)
    root.rename(whole)
    print("undisturbed: " + ", ".join(f"{name} {taken:.1f} s" for name, taken in seconds.items()), flush=True)
    begun, made, rounds = time.monotonic(), 0, 0
    while made < arguments.disturbances:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        for verb in verbs(root):
            for _ in range(min(chance.randint(1, 5), arguments.disturbances - made)):
                disturb(far, verb, seconds[verb.name], chance, counts, log)
                made += 1
            finish(far, verb)
        rounds += 1
        found = contents(root)
        differing = [name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]
        if differing:
            sys.exit(f"round {rounds}: other than undisturbed: {', '.join(sorted(differing))}; kept in {work}")
        print(f"round {rounds}: {made} disturbances, {len(found)} files as undisturbed", flush=True)
    kinds = collections.Counter()
    for (name, kind), count in ((key, count) for key, count in counts.items() if isinstance(key, tuple)):
        kinds[kind] += count
        kinds[name] += count
    print(f"{made} disturbances in {time.monotonic() - begun:.0f} s and {rounds} rounds: {dict(kinds)}; "
          f"{counts['killed']} were killed, {counts['interrupted']} interrupted, {counts['torn']} files torn; "
          f"every rerun ended as undisturbed, none asked for --fresh")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
