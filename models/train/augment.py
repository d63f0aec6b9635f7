"""Augmentation on the device, a batch at a time: moved and zoomed pictures, changed light, noise, hidden patches.

Pictures are f32 `[B, 3, H, W]` of values 0..255; all randomness comes from the given generator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from spec import CONTEXT, CROP, FILL, LEAST_VISIBLE, MARGIN, MEAN, STD, UNLABELLED, canvas
from store import Objects

# Objects that train `scout`: somewhat smaller and more hidden than what accuracy counts, so that the edge of what counts is learned
# from both sides. A detection on what lies below is no error, and none of them is asked for. Pixels of the networks' picture.
LEAST_HEIGHT = 8.0
LEAST_SHARE = LEAST_VISIBLE - 0.1


@dataclass
class Uniform:
    """Draws per sample on the generator's device."""

    generator: torch.Generator
    device: torch.device

    def draw(self, low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator, device=self.device) * (high - low) + low

    def chance(self, share: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator, device=self.device) < share

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, device=self.device)


@dataclass
class Motion:
    """Where the pixels of a batch go: x' = x * zoom + shift, after a mirroring of some; all `[B]` or `[B, 2]` (x, y)."""

    zoom: Tensor
    shift: Tensor
    mirrored: Tensor

    @staticmethod
    def none(count: int, device: torch.device) -> Motion:
        return Motion(
            torch.ones(count, 2, device=device), torch.zeros(count, 2, device=device), torch.zeros(count, dtype=torch.bool, device=device)
        )

    @staticmethod
    def random(u: Uniform, count: int, size: tuple[int, int], strength: float) -> Motion:
        """Zooms by 0.7..1.5 about a random point, mirrors half; a share of the batch keeps the camera's own scale, as it is used."""
        zoom = torch.exp(u.draw(math.log(0.7), math.log(1.5), count, 1) * strength) * (1 + 0.05 * strength * u.draw(-1, 1, count, 2))
        zoom = torch.where(u.chance(0.7 * strength, count, 1), zoom, torch.ones_like(zoom))
        room = torch.tensor([size[1], size[0]], device=u.device) * (1 - zoom)
        return Motion(zoom, room * u.draw(0, 1, count, 2), u.chance(0.5, count))

    def grid(self, picture: tuple[int, int], target: tuple[int, int]) -> Tensor:
        """Sampling positions for `grid_sample`: f32 `[B, H', W', 2]` over a picture of size (H, W)."""
        (height, width), device = picture, self.zoom.device
        xs = torch.arange(target[1], device=device) + 0.5
        ys = torch.arange(target[0], device=device) + 0.5
        x = 2 * (xs[None] - self.shift[:, :1]) / self.zoom[:, :1] / width - 1
        y = 2 * (ys[None] - self.shift[:, 1:]) / self.zoom[:, 1:] / height - 1
        x = torch.where(self.mirrored[:, None], -x, x)
        shape = (len(x), *target)
        return torch.stack((x[:, None, :].expand(shape), y[:, :, None].expand(shape)), 3)


def pictures(source: Tensor, motion: Motion) -> Tensor:
    """Moved pictures on the networks' canvas: u8 `[B, H, W, 3]` -> f32 `[B, 3, H', W']`, 114 wherever there is no picture."""
    height, width = source.shape[1:3]
    values = source.permute(0, 3, 1, 2).float() - FILL
    moved = F.grid_sample(values, motion.grid((height, width), (height, width)), align_corners=False)
    target = canvas(height, width)
    return F.pad(moved, (0, target[1] - width, 0, target[0] - height)) + FILL


def labels(source: Tensor, motion: Motion) -> Tensor:
    """Moved label maps: u8 `[B, H, W]` -> i64 `[B, H, W]`, `UNLABELLED` outside the picture."""
    size = (source.shape[1], source.shape[2])
    moved = F.grid_sample(source[:, None].float() + 1, motion.grid(size, size), mode="nearest", align_corners=False)
    moved = moved[:, 0].round().long() - 1
    return torch.where(moved < 0, UNLABELLED, moved)


def objects(source: Objects, motion: Motion, size: tuple[int, int], hidden: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Moved objects: boxes f32 `[B, M, 4]`, which of them train the detector and which are ignored (bool `[B, M]` each).

    `hidden` are patches f32 `[B, P, 4]` that cover the picture afterwards.
    """
    height, width = size
    x0, y0, x1, y1 = source.boxes.unbind(2)
    flip = motion.mirrored[:, None]
    x0, x1 = torch.where(flip, width - x1, x0), torch.where(flip, width - x0, x1)
    zoom, shift = motion.zoom[:, :, None], motion.shift[:, :, None]
    x0, x1 = x0 * zoom[:, 0] + shift[:, 0], x1 * zoom[:, 0] + shift[:, 0]
    y0, y1 = y0 * zoom[:, 1] + shift[:, 1], y1 * zoom[:, 1] + shift[:, 1]
    whole = ((x1 - x0) * (y1 - y0)).clamp_min(1e-6)
    x0, x1, y0, y1 = x0.clamp(0, width), x1.clamp(0, width), y0.clamp(0, height), y1.clamp(0, height)
    boxes = torch.stack((x0, y0, x1, y1), 2)
    area = (x1 - x0) * (y1 - y0)
    visible = source.visible * area / whole
    if hidden is not None:
        covered = _intersections(boxes, hidden).sum(2) / area.clamp_min(1e-6)
        visible = visible * (1 - covered).clamp_min(0)
    exists = (source.classes >= 0) & (x1 - x0 > 0.5) & (y1 - y0 > 0.5)
    trains = exists & (y1 - y0 >= LEAST_HEIGHT) & (x1 - x0 >= 2) & (visible >= LEAST_SHARE)
    return boxes, trains, exists & ~trains


def patches(u: Uniform, count: int, size: tuple[int, int], strength: float) -> Tensor:
    """Rectangles that hide parts of the pictures: f32 `[B, 3, 4]`; many are empty."""
    height, width = size
    sides = torch.stack((u.draw(0.01, 0.08, count, 3) * width, u.draw(0.01, 0.12, count, 3) * height), 2)
    sides = sides * u.chance(0.15 * strength, count, 3)[:, :, None]
    start = torch.stack((u.draw(0, 1, count, 3) * width, u.draw(0, 1, count, 3) * height), 2)
    return torch.cat((start, start + sides), 2).round()


def hide(values: Tensor, hidden: Tensor, fill: Tensor | float) -> Tensor:
    """Fills patches of pictures `[B, C, H, W]` (or of label maps, as one channel)."""
    xs = torch.arange(values.shape[3], device=values.device)
    ys = torch.arange(values.shape[2], device=values.device)
    x0, y0, x1, y1 = (hidden[:, :, i, None] for i in range(4))
    columns, rows = (xs >= x0) & (xs < x1), (ys >= y0) & (ys < y1)
    mask = (rows[:, :, :, None] & columns[:, :, None, :]).any(1, keepdim=True)
    return torch.where(mask, fill, values)


def light(u: Uniform, values: Tensor, strength: float, hue: float = 0.15) -> Tensor:
    """Changes brightness, contrast, saturation, hue (radians), white balance, gamma and sharpness, and adds noise."""
    count = len(values)
    draw = lambda spread, *shape: 1 + spread * strength * u.draw(-1, 1, *shape)
    # One 3x3 matrix a sample: saturation and hue act on the differences from grey, gains on the channels.
    grey = torch.tensor([0.299, 0.587, 0.114], device=u.device).expand(3, 3)
    angle = hue * strength * u.draw(-1, 1, count, 1, 1)
    axis = torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]], device=u.device) / math.sqrt(3)
    eye = torch.eye(3, device=u.device)
    turn = eye + torch.sin(angle) * axis + (1 - torch.cos(angle)) * (axis @ axis)
    matrix = torch.matmul(turn, grey + draw(0.4, count, 1, 1) * (eye - grey))
    matrix = matrix * draw(0.08, count, 3, 1) * draw(0.25, count, 1, 1)
    flat = torch.bmm(matrix, values.flatten(2))
    mean = flat.mean((1, 2), keepdim=True)
    flat = (flat - mean) * draw(0.25, count, 1, 1) + mean + 12 * strength * u.draw(-1, 1, count, 1, 1)
    gamma = torch.exp(0.3 * strength * u.draw(-1, 1, count, 1, 1))
    values = (255 * (flat.clamp(0, 255) / 255 + 1e-5).pow(gamma)).view_as(values)
    # Mixes in a 3x3 mean: blurs (positive) or sharpens (negative).
    mix = (u.draw(-0.5, 0.9, count, 1, 1, 1) * u.chance(0.25, count, 1, 1, 1)) * strength
    values = values + mix * (F.avg_pool2d(values, 3, 1, 1, count_include_pad=False) - values)
    level = u.draw(0, 8, count, 1, 1, 1) * u.chance(0.5, count, 1, 1, 1) * strength
    return (values + level * u.normal(*values.shape)).clamp(0, 255)


def keep_canvas(values: Tensor, height: int) -> Tensor:
    """Sets the rows below the picture to the fill value again, as the letterbox on board has them."""
    values[:, :, height:] = FILL
    return values


def prepare(values: Tensor) -> Tensor:
    """Pixel values to what the networks read."""
    return ((values - MEAN) / STD).contiguous(memory_format=torch.channels_last)


def crops(u: Uniform, contexts: Tensor, strength: float) -> Tensor:
    """Crops for `signal` from their contexts, u8 `[B, 96, 96, 3]` -> f32 `[B, 3, 64, 64]`, with the error of a detector's box.

    Each side of the box moves by up to 12 % of the box, of every fourth by up to 20 %, then the box is enlarged and stretched as on
    board; signs are turned slightly.
    """
    count = len(contexts)
    values = contexts.permute(0, 3, 1, 2).float()
    half = 1 / CONTEXT
    spread = torch.where(u.chance(0.25, count, 1), 0.2, 0.12)
    error = u.draw(-1, 1, count, 4) * spread * 2 * half * (0.4 + 0.6 * strength)
    low, high = -half + error[:, :2], half + error[:, 2:]
    extent = (high - low) * (1 + 2 * MARGIN)
    middle = (low + high) / 2
    at = (torch.arange(CROP, device=u.device) + 0.5) / CROP - 0.5
    x = at[None, None, :] * extent[:, 0, None, None]
    y = at[None, :, None] * extent[:, 1, None, None]
    angle = 0.12 * strength * u.draw(-1, 1, count, 1, 1)
    cos, sin = torch.cos(angle), torch.sin(angle)
    grid = torch.stack((x * cos - y * sin + middle[:, 0, None, None], x * sin + y * cos + middle[:, 1, None, None]), 3)
    return F.grid_sample(values, grid, padding_mode="border", align_corners=False)


def _intersections(a: Tensor, b: Tensor) -> Tensor:
    """Areas common to boxes: `[B, M, 4]` and `[B, P, 4]` -> `[B, M, P]`."""
    low = torch.maximum(a[:, :, None, :2], b[:, None, :, :2])
    high = torch.minimum(a[:, :, None, 2:], b[:, None, :, 2:])
    return (high - low).clamp_min(0).prod(3)
