"""`signal`: names the light or sign in a crop of 64x64 pixels, or says that there is none."""

from __future__ import annotations

from torch import Tensor, nn

from spec import SIGNAL_CLASSES

from .layers import ConvBn, Csp, Residual, initialise


class Signal(nn.Module):
    """Crops f32 `[B, 3, 64, 64]`, prepared -> logits `[B, 17]`."""

    def __init__(self, classes: int = len(SIGNAL_CLASSES)):
        super().__init__()
        self.body = nn.Sequential(
            ConvBn(3, 32, 3, 2),
            ConvBn(32, 64, 3, 2),
            Residual(64),
            ConvBn(64, 128, 3, 2),
            Residual(128),
            ConvBn(128, 192, 3, 2),
            Csp(192, 192, 1, hidden=128),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(0.1)
        self.logits = nn.Linear(192, classes)
        initialise(self)
        nn.init.normal_(self.logits.weight, std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits(self.dropout(self.pool(self.body(x)).flatten(1)))
