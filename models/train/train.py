"""Trains one of the networks: `train.py scout --data DIR --out DIR`.

The learning rate warms up and then falls as a half cosine over the budget, which is given in minutes of training (`--minutes`) or in
steps (`--steps`, for a run that can be repeated exactly: the finished run says how many it took). What is kept is the exponential
moving average of the weights. A run ends early with `--pause`, and goes on with `--resume`, also on another machine.

Writes into the folder `--out`: `last.pt` (everything needed to resume), `weights.pt` (the averaged weights with what the card says of
them), `log.jsonl` (losses and accuracy).
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from augment import Uniform
from networks import NETWORKS
from store import about
from tasks import TASKS, Task

WARM_UP = 0.03
# From this share of the budget on the augmentation weakens, so that the weights settle on pictures as the camera gives them.
SETTLE = 0.8
SETTLED_STRENGTH = 0.4


class Budget:
    """How far training has come, 0..1, in minutes or in steps."""

    def __init__(self, minutes: float, steps: int | None, elapsed: float, step: int):
        self.minutes, self.steps, self.step = minutes, steps, step
        self.before, self.began = elapsed, time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds of training, those before a pause included."""
        return self.before + time.monotonic() - self.began

    @property
    def here(self) -> float:
        """Seconds of this run."""
        return time.monotonic() - self.began

    @property
    def progress(self) -> float:
        return self.step / self.steps if self.steps else self.elapsed / (60 * self.minutes)


def rate(progress: float) -> float:
    """Share of the full learning rate: a linear warm-up, then a half cosine down to a hundredth."""
    if progress < WARM_UP:
        return max(progress, 1e-3) / WARM_UP
    rest = min(1.0, (progress - WARM_UP) / (1 - WARM_UP))
    return 0.01 + 0.99 * (1 + math.cos(math.pi * rest)) / 2


def strength(progress: float) -> float:
    return 1.0 if progress < SETTLE else SETTLED_STRENGTH


class Average:
    """Exponential moving average of weights and statistics; short at first, so that the start is forgotten."""

    def __init__(self, network: nn.Module, horizon: float = 1000.0):
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.horizon = horizon

    @torch.no_grad()
    def update(self, network: nn.Module, step: int) -> None:
        share = 1 / min(self.horizon, 1 + step / 5)
        mine, theirs = self.network.state_dict(), network.state_dict()
        floats = [k for k, v in mine.items() if v.is_floating_point()]
        torch._foreach_lerp_([mine[k] for k in floats], [theirs[k] for k in floats], share)
        for k in mine.keys() - set(floats):
            mine[k].copy_(theirs[k])


def optimizer_of(network: nn.Module, task_rate: float, decay: float, fused: bool) -> torch.optim.Optimizer:
    """AdamW; only matrices and kernels decay, biases and normalisations do not."""
    weights = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": weights, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=task_rate, betas=(0.9, 0.99), fused=fused)


def save(path: Path, content: dict[str, Any]) -> None:
    """Writes a checkpoint so that a stop in the middle leaves the old one."""
    part = path.with_suffix(".part")
    torch.save(content, part)
    os.replace(part, path)


def describe(args: argparse.Namespace, task: Task, budget: Budget, batch: int, accuracy: dict[str, float]) -> dict[str, Any]:
    """What the card says of a training run."""
    data = about(args.data / "train")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() and args.device != "cpu" else "cpu"
    return {
        "network": task.name,
        "seed": args.seed,
        "data": {k: data[k] for k in ("seeds", "frames", "every", "renderer") if k in data},
        "steps": budget.step,
        "minutes": round(budget.elapsed / 60, 2),
        "batch": batch,
        "samples": budget.step * batch,
        "device": device,
        "torch": str(torch.__version__),
        "accuracy": {k: round(v, 4) for k, v in accuracy.items()},
    }


def train(args: argparse.Namespace) -> dict[str, float]:
    """Trains until the budget or the pause; returns the last accuracy."""
    device = torch.device(args.device)
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    args.out.mkdir(parents=True, exist_ok=True)
    task = TASKS[args.network](args.data, device)
    defaults = task.settings
    size, top = args.batch or defaults.batch, args.rate or defaults.rate
    network = NETWORKS[args.network]().to(device, memory_format=torch.channels_last)
    average = Average(network)
    optimizer = optimizer_of(network, top, defaults.decay, fused=device.type == "cuda")
    generator = torch.Generator(device).manual_seed(args.seed)
    elapsed, step, accuracy = 0.0, 0, {}
    if args.weights:
        start = torch.load(args.weights, map_location=device, weights_only=True)["weights"]
        network.load_state_dict(start)
        average.network.load_state_dict(start)
    if args.resume and (args.out / "last.pt").exists():
        last = torch.load(args.out / "last.pt", map_location="cpu", weights_only=True)
        network.load_state_dict(last["network"])
        average.network.load_state_dict(last["average"])
        optimizer.load_state_dict(last["optimizer"])
        generator.set_state(last["generator"])
        torch.set_rng_state(last["rng"])
        elapsed, step, accuracy = last["elapsed"], last["step"], last["accuracy"]
    run = torch.compile(network) if args.compile else network
    uniform = Uniform(generator, device)
    budget = Budget(args.minutes or defaults.minutes, args.steps, elapsed, step)
    log = open(args.out / "log.jsonl", "a")

    def say(line: str, record: dict[str, Any]) -> None:
        print(f"{task.name} {budget.elapsed / 60:5.1f} min {min(1, budget.progress):4.0%} step {budget.step}: {line}", flush=True)
        log.write(json.dumps({"step": budget.step, "seconds": round(budget.elapsed, 1), **record}) + "\n")
        log.flush()

    def measure() -> None:
        nonlocal accuracy
        accuracy = task.accuracy(average.network)
        say("held out " + ", ".join(f"{k} {v:.3f}" for k, v in accuracy.items()), {"accuracy": accuracy})

    def keep() -> None:
        state = {
            "network": network.state_dict(),
            "average": average.network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "generator": generator.get_state(),
            "rng": torch.get_rng_state(),
            "elapsed": budget.elapsed,
            "step": budget.step,
            "accuracy": accuracy,
        }
        save(args.out / "last.pt", state)
        save(args.out / "weights.pt", {"weights": average.network.state_dict(), "about": describe(args, task, budget, size, accuracy)})

    said = saved = measured = budget.here
    counted = budget.step
    sums: dict[str, torch.Tensor] = {}
    network.train()
    while budget.progress < 1 and not (args.pause and budget.here > 60 * args.pause):
        progress = budget.progress
        for group in optimizer.param_groups:
            group["lr"] = top * rate(progress)
        inputs, truth = task.batch(uniform, size, strength(progress))
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            output = run(inputs)
        loss, parts = task.loss(output, truth)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimizer.step()
        budget.step += 1
        average.update(network, budget.step)
        for k, v in {"loss": loss.detach(), "gradient": norm, **parts}.items():
            sums[k] = sums.get(k, 0) + v
        now = budget.here
        if now - said >= args.say or (counted == budget.step - 1 and budget.step == step + 1):
            taken = budget.step - counted
            means = {k: float(v) / taken for k, v in sums.items()}
            if not all(map(math.isfinite, means.values())):
                raise FloatingPointError(f"step {budget.step}: {means}; lower --rate and go on with --resume")
            speed = taken * size / max(1e-6, budget.here - said)
            say(", ".join(f"{k} {v:.3f}" for k, v in means.items()) + f", {speed:.0f} samples/s", {"means": means, "speed": speed})
            said, counted, sums = budget.here, budget.step, {}
        if now - measured >= 60 * args.measure and budget.progress < 0.97:
            measure()
            measured = budget.here
            said, counted, sums = measured, budget.step, {}
        # Never over a good checkpoint with a broken one; the next line of the log says what happened.
        if now - saved >= 60 * args.save and bool(torch.isfinite(norm)):
            keep()
            saved = budget.here
    measure()
    keep()
    about = describe(args, task, budget, size, accuracy)
    print(json.dumps(about if budget.progress >= 1 else {"paused": True, **about}), flush=True)
    return accuracy


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=sorted(TASKS))
    parser.add_argument("--data", type=Path, required=True, help="folder that dataset.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, help="budget of the whole training, pauses not counted")
    parser.add_argument("--steps", type=int, help="budget in steps instead")
    parser.add_argument("--pause", type=float, help="end this run after so many minutes, to be resumed")
    parser.add_argument("--resume", action="store_true", help="go on from OUT/last.pt if there is one")
    parser.add_argument("--weights", type=Path, help="start from the averaged weights of another run")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--rate", type=float, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile: a slow start, then faster steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--say", type=float, default=20, help="seconds between lines of the log")
    parser.add_argument("--measure", type=float, default=2.5, help="minutes between measurements of the accuracy")
    parser.add_argument("--save", type=float, default=1, help="minutes between checkpoints")
    return parser.parse_args(given)


if __name__ == "__main__":
    train(arguments())
