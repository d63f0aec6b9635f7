"""Training and accuracy of `signal`."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import augment
import losses
from spec import SIGNAL_CLASSES
from store import load_crop_classes, upload

from .base import Settings, Task


class SignalTask(Task):
    name = "signal"
    headline = "top1"
    settings = Settings(batch=768, rate=2e-3, decay=0.05, minutes=8)

    def __init__(self, data: Path, device: torch.device, training: bool = True):
        self.held = upload(data / "held/exact.npy", device)
        self.held_classes = load_crop_classes(data / "held", device)
        if training:
            self.contexts = upload(data / "train/crops.npy", device)
            self.classes = load_crop_classes(data / "train", device)
            # Classes are drawn by the root of how often they occur: rare signs more, false alarms still most of all.
            counts = torch.bincount(self.classes, minlength=len(SIGNAL_CLASSES)).double()
            # A running sum to draw from: `multinomial` takes no more than 2^24 weights, and a search is as quick.
            self.drawn = counts.clamp_min(1).rsqrt()[self.classes].cumsum(0)

    def batch(self, u: augment.Uniform, size: int, strength: float) -> tuple[Tensor, tuple[Tensor, ...]]:
        at = torch.rand(size, generator=u.generator, device=u.device, dtype=torch.float64) * self.drawn[-1]
        pick = torch.searchsorted(self.drawn, at).clamp_max(len(self.classes) - 1)
        values = augment.crops(u, self.contexts[pick], strength)
        # Colour tells lights apart: hue turns by 0.1 at most.
        return augment.prepare(augment.light(u, values, strength, hue=0.1)), (self.classes[pick],)

    def loss(self, output: Tensor, truth: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
        return losses.classification(output, truth[0])

    @torch.no_grad()
    def accuracy(self, network: nn.Module) -> dict[str, float]:
        right = []
        for part, classes in zip(self.held.split(512), self.held_classes.split(512)):
            with torch.autocast(part.device.type, torch.bfloat16, enabled=part.is_cuda):
                logits = network(augment.prepare(part.permute(0, 3, 1, 2)))
            right.append(logits.float().argmax(1) == classes)
        hits = torch.cat(right)
        signs = self.held_classes != len(SIGNAL_CLASSES) - 1
        result = {"top1": float(hits[signs].float().mean()), "with false alarms": float(hits.float().mean())}
        for c, name in enumerate(SIGNAL_CLASSES):
            mine = self.held_classes == c
            if bool(mine.any()):
                result[name] = float(hits[mine].float().mean())
        return result
