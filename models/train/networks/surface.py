"""`surface`: a class for every pixel: road, lane mark, sidewalk, vehicle, person, sky, other.

A CSP backbone and a decoder that adds its features back level by level (Lin et al., "Feature Pyramid Networks", 2017). Lane marks and
persons are a few pixels wide, so the decoder ends at half the input's resolution, where it reads the stem's output too.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spec import SURFACE_CLASSES

from .layers import Backbone, ConvBn, Csp, initialise


class Rise(nn.Module):
    """One step of the decoder: the coarse level doubled, plus the backbone's level, then a block."""

    def __init__(self, coarse: int, fine: int, cout: int):
        super().__init__()
        self.coarse = ConvBn(coarse, cout)
        self.fine = ConvBn(fine, cout)
        self.block = Csp(cout, cout, 1)

    def forward(self, coarse: Tensor, fine: Tensor) -> Tensor:
        return self.block(_twice(self.coarse(coarse)) + self.fine(fine))


class Surface(nn.Module):
    """Picture f32 `[B, 3, H, W]`, prepared -> logits `[B, 7, H/2, W/2]`, to be resized bilinearly (half pixel) before the argmax."""

    def __init__(self, classes: int = len(SURFACE_CLASSES)):
        super().__init__()
        self.backbone = Backbone((16, 32, 64, 128, 192), (1, 2, 2, 1))
        self.rise4 = Rise(192, 128, 128)
        self.rise3 = Rise(128, 64, 64)
        self.rise2 = Rise(64, 32, 32)
        self.narrow = ConvBn(32, 16)
        self.last = ConvBn(32, 32, 3)
        self.logits = nn.Conv2d(32, classes, 1)
        initialise(self)
        nn.init.normal_(self.logits.weight, std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        c1, c2, c3, c4, c5 = self.backbone(x)
        x = self.rise2(self.rise3(self.rise4(c5, c4), c3), c2)
        return self.logits(self.last(torch.cat((_twice(self.narrow(x)), c1), 1)))


def _twice(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="nearest")
