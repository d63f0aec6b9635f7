"""Building blocks of the three networks.

All of them are dense convolutions over 16, 32, 64.. channels, ReLU, additions, concatenations, max pooling and nearest upsampling:
what matrix units take whole, and what a CPU computes without an exponential. In int8 a ReLU costs nothing either.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ConvBn(nn.Module):
    """Convolution, batch normalisation, ReLU (unless `act` is false)."""

    def __init__(self, cin: int, cout: int, kernel: int = 1, stride: int = 1, act: bool = True):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(cout, eps=1e-3, momentum=0.03)
        self.act: nn.Module = nn.ReLU(inplace=True) if act else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.norm(self.conv(x)))


class Residual(nn.Module):
    """Two 3x3 convolutions beside an identity: He et al., "Deep Residual Learning", 2015; the last ReLU comes before the sum."""

    def __init__(self, channels: int):
        super().__init__()
        self.body = nn.Sequential(ConvBn(channels, channels, 3), ConvBn(channels, channels, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Csp(nn.Module):
    """Cross-stage partial block: residuals on one half of the channels, the other half passes by; Wang et al., "CSPNet", 2019."""

    def __init__(self, cin: int, cout: int, depth: int, hidden: int | None = None):
        super().__init__()
        hidden = hidden or cout // 2
        self.deep = ConvBn(cin, hidden)
        self.side = ConvBn(cin, hidden)
        self.body = nn.Sequential(*(Residual(hidden) for _ in range(depth)))
        self.join = ConvBn(2 * hidden, cout)

    def forward(self, x: Tensor) -> Tensor:
        return self.join(torch.cat((self.body(self.deep(x)), self.side(x)), 1))


class Pyramid(nn.Module):
    """Max pooling over 5x5, 9x9 and 13x13 cells by three 5x5 in a row, so that each cell sees far: the SPP of He et al., 2014."""

    def __init__(self, channels: int):
        super().__init__()
        self.reduce = ConvBn(channels, channels // 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.join = ConvBn(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        x = self.reduce(x)
        near = self.pool(x)
        far = self.pool(near)
        return self.join(torch.cat((x, near, far, self.pool(far)), 1))


class Backbone(nn.Module):
    """Features at strides 2, 4, 8, 16 and 32, of `channels` each; the last stage ends in a `Pyramid`."""

    def __init__(self, channels: tuple[int, int, int, int, int], depths: tuple[int, int, int, int]):
        super().__init__()
        self.stem = ConvBn(3, channels[0], 3, 2)
        pairs = zip(channels, channels[1:], depths)
        self.stages = nn.ModuleList(nn.Sequential(ConvBn(a, b, 3, 2), Csp(b, b, depth)) for a, b, depth in pairs)
        self.stages[-1].append(Pyramid(channels[-1]))

    def forward(self, x: Tensor) -> list[Tensor]:
        features = [self.stem(x)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return features


def initialise(module: nn.Module) -> None:
    """He initialisation for ReLU; batch normalisations start as identities."""
    for m in module.modules():
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            if m.bias is not None:
                nn.init.zeros_(m.bias)


def fold(module: nn.Module) -> nn.Module:
    """Folds every batch normalisation into the convolution before it, in f64; for evaluation only, in place."""
    for m in module.modules():
        if isinstance(m, ConvBn) and isinstance(m.norm, nn.BatchNorm2d):
            norm, conv = m.norm, m.conv
            scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
            bias = norm.bias.double() - norm.running_mean.double() * scale
            if conv.bias is not None:
                bias = bias + conv.bias.double() * scale
            conv.weight = nn.Parameter((conv.weight.double() * scale[:, None, None, None]).float(), requires_grad=False)
            conv.bias = nn.Parameter(bias.float(), requires_grad=False)
            m.norm = nn.Identity()
    return module


def multiplications(module: nn.Module, sample: Tensor) -> int:
    """Multiply-accumulates of the convolutions and matrix products for the sample."""
    total = 0

    def count(m: nn.Module, _: tuple[Tensor, ...], out: Tensor) -> None:
        nonlocal total
        total += out.numel() * m.weight[0].numel()

    hooks = [m.register_forward_hook(count) for m in module.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    was = module.training
    module.eval()
    with torch.no_grad():
        module(sample)
    module.train(was)
    for hook in hooks:
        hook.remove()
    return total


def parameters(module: nn.Module) -> int:
    """Number of trained values."""
    return sum(p.numel() for p in module.parameters())
