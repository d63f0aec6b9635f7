"""`scout`: finds cars, trucks, persons, cyclists, lights and signs in a picture, without anchors.

A CSP backbone, a neck that goes down and up again (Liu et al., "PANet", 2018) and one head a level (strides 8, 16, 32). Most objects
are small (from 12 pixels of the network's picture), so the level of stride 8 gets most of the work: its block is the widest, and it
also reads the features of stride 4. The head says what the YOLOX decoder on board reads: a row of
(x, y, w, h, object, 6 classes) a cell, box centre (x + column) * stride, size exp(w) * stride.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spec import SCOUT_CLASSES

from .layers import Backbone, ConvBn, Csp, initialise


class Head(nn.Module):
    """One level's head: a shared 3x3, then a 3x3 whose halves serve boxes and scores."""

    def __init__(self, cin: int, hidden: int, classes: int):
        super().__init__()
        self.hidden = hidden
        self.reduce = ConvBn(cin, hidden) if cin != hidden else nn.Identity()
        self.shared = ConvBn(hidden, hidden, 3)
        self.boxes_tower = ConvBn(hidden, hidden, 3)
        self.scores_tower = ConvBn(hidden, hidden, 3)
        self.boxes = nn.Conv2d(hidden, 4, 1)
        self.scores = nn.Conv2d(hidden, 1 + classes, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.shared(self.reduce(x))
        return self.boxes(self.boxes_tower(x)), self.scores(self.scores_tower(x))


class Scout(nn.Module):
    """Picture f32 `[B, 3, H, W]`, prepared -> rows `[B, A, 5 + 6]`; scores are logits in training mode, else through their sigmoid."""

    def __init__(self, classes: int = len(SCOUT_CLASSES)):
        super().__init__()
        self.backbone = Backbone((16, 32, 64, 128, 256), (1, 2, 2, 1))
        self.lateral5 = ConvBn(256, 128)
        self.down4 = Csp(256, 128, 1)
        self.lateral4 = ConvBn(128, 64)
        self.fine = ConvBn(32, 32, 3, 2)
        self.down3 = Csp(64 + 64 + 32, 64, 1, hidden=64)
        self.stride4 = ConvBn(64, 64, 3, 2)
        self.up4 = Csp(64 + 64, 128, 1)
        self.stride5 = ConvBn(128, 128, 3, 2)
        self.up5 = Csp(128 + 128, 128, 1)
        self.heads = nn.ModuleList(Head(c, 64, classes) for c in (64, 128, 128))
        initialise(self)
        # Scores start low, as nearly all cells are background: Lin et al., "Focal Loss", 2017, section 3.3.
        for head in self.heads:
            nn.init.normal_(head.boxes.weight, std=0.01)
            nn.init.normal_(head.scores.weight, std=0.01)
            nn.init.constant_(head.scores.bias, -math.log(99.0))

    def forward(self, x: Tensor) -> Tensor:
        _, c2, c3, c4, c5 = self.backbone(x)
        p5 = self.lateral5(c5)
        p4 = self.lateral4(self.down4(torch.cat((_twice(p5), c4), 1)))
        p3 = self.down3(torch.cat((_twice(p4), c3, self.fine(c2)), 1))
        n4 = self.up4(torch.cat((self.stride4(p3), p4), 1))
        n5 = self.up5(torch.cat((self.stride5(n4), p5), 1))
        rows = []
        for level, head in zip((p3, n4, n5), self.heads):
            boxes, scores = head(level)
            both = torch.cat((boxes, scores if self.training else scores.sigmoid()), 1)
            # The sides as plain numbers: the exported graph has static shapes.
            rows.append(both.reshape(-1, int(both.size(1)), int(both.size(2)) * int(both.size(3))))
        return torch.cat(rows, 2).transpose(1, 2)


def _twice(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")
