"""Training and accuracy of `surface`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import augment
import losses
import metrics
from spec import FILL, SURFACE_CLASSES, UNLABELLED
from store import upload

from .base import Settings, Task


class SurfaceTask(Task):
    name = "surface"
    headline = "miou"
    settings = Settings(batch=64, rate=2e-3, decay=0.03, minutes=20)

    def __init__(self, data: Path, device: torch.device, training: bool = True):
        self.held = upload(data / "held/pictures.npy", device)
        self.full = upload(data / "held/full.npy", device)
        self.size = (self.held.shape[1], self.held.shape[2])
        if training:
            self.pictures = upload(data / "train/pictures.npy", device)
            self.labels = upload(data / "train/labels.npy", device)
            self.weights = self.balance()

    def balance(self) -> Tensor:
        """Weight of each class in the cross-entropy: the root of its rarity, within 0.4..4, one on average over the pixels."""
        some = self.labels[:: max(1, len(self.labels) // 512)]
        counts = torch.bincount(some.flatten().int(), minlength=len(SURFACE_CLASSES))[: len(SURFACE_CLASSES)].float()
        share = counts / counts.sum()
        weights = share.clamp_min(1e-4).rsqrt()
        weights = (weights / (weights * share).sum()).clamp(0.4, 4)
        return weights / (weights * share).sum()

    def batch(self, u: augment.Uniform, size: int, strength: float) -> tuple[Tensor, tuple[Tensor, ...]]:
        pick = torch.randint(len(self.pictures), (size,), generator=u.generator, device=u.device)
        motion = augment.Motion.random(u, size, self.size, strength)
        hidden = augment.patches(u, size, self.size, strength)
        values = augment.light(u, augment.pictures(self.pictures[pick], motion), strength)
        values = augment.keep_canvas(augment.hide(values, hidden, FILL), self.size[0])
        labels = augment.labels(self.labels[pick], motion)
        labels = augment.hide(labels[:, None], hidden, UNLABELLED)[:, 0]
        return augment.prepare(values), (labels,)

    def loss(self, output: Tensor, truth: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
        return losses.segmentation(output, truth[0], self.weights)

    @torch.no_grad()
    def accuracy(self, network: nn.Module) -> dict[str, float]:
        counts = torch.zeros(len(SURFACE_CLASSES), len(SURFACE_CLASSES), dtype=torch.int64, device=self.held.device)
        for part, full in zip(self.held.split(32), self.full.split(32)):
            values = augment.pictures(part, augment.Motion.none(len(part), part.device))
            with torch.autocast(part.device.type, torch.bfloat16, enabled=part.is_cuda):
                logits = network(augment.prepare(values))
            logits = F.interpolate(logits.float(), values.shape[2:], mode="bilinear", align_corners=False)
            small = logits.argmax(1)[:, : self.size[0], : self.size[1]]
            counts += metrics.confusion(small.repeat_interleave(2, 1).repeat_interleave(2, 2), full, len(SURFACE_CLASSES))
        each = metrics.intersection_over_union(counts)
        return {"miou": float(np.nanmean(each)), **{k: float(v) for k, v in zip(SURFACE_CLASSES, each)}}
