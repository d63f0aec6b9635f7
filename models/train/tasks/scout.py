"""Training and accuracy of `scout`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import augment
import losses
import metrics
from spec import FILL, SCOUT_CLASSES, canvas
from store import Objects, load_objects, upload

from .base import Settings, Task


class ScoutTask(Task):
    name = "scout"
    headline = "map50"
    settings = Settings(batch=96, rate=2e-3, decay=0.03, minutes=20)

    def __init__(self, data: Path, device: torch.device, training: bool = True):
        self.held = upload(data / "held/pictures.npy", device)
        self.held_objects = load_objects(data / "held/objects.npy", len(self.held), device)
        if training:
            self.pictures = upload(data / "train/pictures.npy", device)
            self.objects = load_objects(data / "train/objects.npy", len(self.pictures), device)
        self.size = (self.held.shape[1], self.held.shape[2])
        self.cells = losses.Cells.of(canvas(*self.size), device)

    def batch(self, u: augment.Uniform, size: int, strength: float) -> tuple[Tensor, tuple[Tensor, ...]]:
        pick = torch.randint(len(self.pictures), (size,), generator=u.generator, device=u.device)
        motion = augment.Motion.random(u, size, self.size, strength)
        hidden = augment.patches(u, size, self.size, strength)
        values = augment.light(u, augment.pictures(self.pictures[pick], motion), strength)
        values = augment.keep_canvas(augment.hide(values, hidden, FILL), self.size[0])
        mine = Objects(*(t[pick] for t in vars(self.objects).values()))
        boxes, trains, ignored = augment.objects(mine, motion, self.size, hidden)
        # The table is as wide as the fullest picture of the batch, not of the data set.
        order = torch.argsort((trains | ignored).byte(), dim=1, descending=True, stable=True)
        order = order[:, : max(1, int((trains | ignored).sum(1).max()))]
        boxes = boxes.gather(1, order[:, :, None].expand(-1, -1, 4))
        return augment.prepare(values), (boxes, *(t.gather(1, order) for t in (mine.classes, trains, ignored)))

    def loss(self, output: Tensor, truth: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
        return losses.detection(self.cells, output, *truth)

    @torch.no_grad()
    def accuracy(self, network: nn.Module) -> dict[str, float]:
        found: list[np.ndarray] = []
        for part in self.held.split(32):
            values = augment.pictures(part, augment.Motion.none(len(part), part.device))
            with torch.autocast(part.device.type, torch.bfloat16, enabled=part.is_cuda):
                rows = network(augment.prepare(values))
            rows = rows.float()
            boxes = self.cells.boxes(rows)
            limit = torch.tensor([self.size[1], self.size[0]] * 2, device=rows.device)
            found += metrics.detections(torch.minimum(boxes.clamp_min(0), limit), rows[..., 4:5] * rows[..., 5:])
        objects = [t.cpu().numpy() for t in vars(self.held_objects).values()]
        truth = []
        for boxes, classes, _, ignored in zip(*objects):
            real = classes >= 0
            truth.append((boxes[real], classes[real], ignored[real]))
        each = metrics.average_precision(found, truth, len(SCOUT_CLASSES))
        return {"map50": float(np.nanmean(each)), **{k: float(v) for k, v in zip(SCOUT_CLASSES, each)}}
