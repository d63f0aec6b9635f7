"""Losses of the three networks, and which cells of `scout` answer for which object."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from spec import STRIDES, UNLABELLED

# Cells that may answer for one object.
CELLS = 10
# Weights of class score and overlap in the alignment of a cell with an object.
SCORE_POWER, OVERLAP_POWER = 0.5, 4.0


@dataclass
class Cells:
    """The cells of all levels, row by row, as in the head: column and row `[A, 2]` and stride `[A, 1]`."""

    at: Tensor
    stride: Tensor

    @staticmethod
    def of(canvas: tuple[int, int], device: torch.device) -> Cells:
        at, strides = [], []
        for s in STRIDES:
            ys, xs = torch.meshgrid(torch.arange(canvas[0] // s), torch.arange(canvas[1] // s), indexing="ij")
            at.append(torch.stack((xs, ys), 2).reshape(-1, 2).float())
            strides.append(torch.full((len(at[-1]), 1), float(s)))
        return Cells(torch.cat(at).to(device), torch.cat(strides).to(device))

    def boxes(self, rows: Tensor) -> Tensor:
        """Decodes rows of the head, `[B, A, 4+]`, to boxes (x0, y0, x1, y1) in pixels of the network's input."""
        middle = (rows[..., :2] + self.at) * self.stride
        half = torch.exp(rows[..., 2:4].clamp(max=6)) * self.stride / 2
        return torch.cat((middle - half, middle + half), -1)


def pairs(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Common area of each pair of boxes `[B, M, 4]` x `[B, A, 4]` -> `[B, M, A]`, and their intersection over union."""
    width = torch.minimum(a[:, :, None, 2], b[:, None, :, 2]) - torch.maximum(a[:, :, None, 0], b[:, None, :, 0])
    height = torch.minimum(a[:, :, None, 3], b[:, None, :, 3]) - torch.maximum(a[:, :, None, 1], b[:, None, :, 1])
    common = width.clamp_min(0) * height.clamp_min(0)
    return common, common / (area(a)[:, :, None] + area(b)[:, None, :] - common).clamp_min(1e-6)


def area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]).clamp_min(0) * (boxes[..., 3] - boxes[..., 1]).clamp_min(0)


@torch.no_grad()
def assign(cells: Cells, boxes: Tensor, scores: Tensor, truth: Tensor, classes: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Task-aligned assignment (Feng et al., "TOOD", 2021): for each cell the object it answers for and how well it is to score.

    `boxes` `[B, A, 4]` and `scores` `[B, A, C]` are the predictions, `truth` `[B, M, 4]`, `classes` `[B, M]`, `valid` `[B, M]` the
    objects. Cells with their centre in the object, or within one stride of the object's centre (tiny objects hold no centre of a
    cell), compete by score and overlap; the best ten take part. The result is the object's index `[B, A]` (-1: none) and the target
    of the score `[B, A]`: the overlap of the object's best cell, scaled by the cell's alignment.
    """
    centres = (cells.at + 0.5) * cells.stride
    cx, cy, reach = centres[:, 0], centres[:, 1], cells.stride[:, 0]
    x0, y0, x1, y1 = (truth[:, :, i, None] for i in range(4))
    inside = (cx > x0) & (cx < x1) & (cy > y0) & (cy < y1)
    near = ((x0 + x1) / 2 - cx).abs().lt(reach) & ((y0 + y1) / 2 - cy).abs().lt(reach)
    candidates = (inside | near) & valid[:, :, None]
    overlap = pairs(truth, boxes)[1]
    index = classes.clamp_min(0)[:, :, None].expand(-1, -1, scores.shape[1])
    score = scores.transpose(1, 2).gather(1, index)
    alignment = torch.where(candidates, score.clamp_min(1e-6).pow(SCORE_POWER) * overlap.pow(OVERLAP_POWER), 0.0)
    best = alignment.topk(CELLS, 2)
    chosen = torch.zeros_like(candidates).scatter_(2, best.indices, best.values > 1e-12)
    # A cell wanted by several objects goes to the one it overlaps most.
    wanted = torch.where(chosen, overlap + 1e-6, 0.0)
    most, owner = wanted.max(1)
    owned = most > 0
    own = chosen & (owner[:, None] == torch.arange(truth.shape[1], device=truth.device)[:, None])
    alignment = torch.where(own, alignment, 0.0)
    scale = torch.where(own, overlap, 0.0).amax(2) / alignment.amax(2).clamp_min(1e-12)
    target = (alignment * scale[:, :, None]).amax(1).clamp(0, 1)
    return torch.where(owned, owner, -1), torch.where(owned, target, 0.0)


def complete_iou(a: Tensor, b: Tensor) -> Tensor:
    """Complete intersection over union of boxes `[N, 4]` and `[N, 4]`: Zheng et al., "Enhancing Geometric Factors", 2020."""
    width = (torch.minimum(a[:, 2], b[:, 2]) - torch.maximum(a[:, 0], b[:, 0])).clamp_min(0)
    height = (torch.minimum(a[:, 3], b[:, 3]) - torch.maximum(a[:, 1], b[:, 1])).clamp_min(0)
    common = width * height
    iou = common / (area(a) + area(b) - common).clamp_min(1e-6)
    hull = torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])
    apart = ((a[:, :2] + a[:, 2:] - b[:, :2] - b[:, 2:]) / 2).square().sum(1) / hull.square().sum(1).clamp_min(1e-6)
    slope = lambda s: torch.atan((s[:, 2] - s[:, 0]) / (s[:, 3] - s[:, 1]).clamp_min(1e-3))
    shape = 4 / math.pi**2 * (slope(b) - slope(a)).square()
    with torch.no_grad():
        weight = shape / (1 - iou + shape).clamp_min(1e-6)
    return iou - apart - weight * shape


def detection(
    cells: Cells, rows: Tensor, truth: Tensor, classes: Tensor, trains: Tensor, ignored: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of `scout` from its raw rows `[B, A, 11]` and the batch's objects; and its parts.

    Cells that answer for nothing learn to say so, except where their box lies mostly on an ignored object.
    """
    rows = rows.float()
    boxes = cells.boxes(rows)
    with torch.no_grad():
        scores = rows[..., 4:5].sigmoid() * rows[..., 5:].sigmoid()
        owner, target = assign(cells, boxes, scores, truth, classes, trains)
        positive = owner >= 0
        lost = torch.where(ignored[:, :, None], pairs(truth, boxes)[0], 0.0).amax(1)
        counted = positive | (lost <= 0.5 * area(boxes))
        total = target.sum().clamp_min(1.0)
    objectness = F.binary_cross_entropy_with_logits(rows[..., 4], target, reduction="none")
    objectness = (objectness * counted).sum() / total
    frame = torch.arange(len(rows), device=rows.device)[:, None].expand_as(owner)[positive]
    mine, weight = owner[positive], target[positive]
    kinds = F.one_hot(classes[frame, mine], rows.shape[2] - 5).float()
    naming = F.binary_cross_entropy_with_logits(rows[..., 5:][positive], kinds, reduction="none").sum(1)
    naming = (naming * weight).sum() / total
    placing = ((1 - complete_iou(boxes[positive], truth[frame, mine])) * weight).sum() / total
    parts = {"box": placing, "object": objectness, "class": naming, "cells": positive.float().sum() / len(rows)}
    return 5 * placing + objectness + naming, {k: v.detach() for k, v in parts.items()}


def segmentation(logits: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of `surface`: weighted cross-entropy, and one minus the soft intersection over union of the classes in the batch.

    `logits` `[B, 7, H/2, W/2]` are resized as on board; `labels` `[B, H', W]` may have fewer rows than the canvas.
    """
    size = (2 * logits.shape[2], 2 * logits.shape[3])
    logits = F.interpolate(logits.float(), size, mode="bilinear", align_corners=False)[:, :, : labels.shape[1], : labels.shape[2]]
    entropy = F.cross_entropy(logits, labels, weights, ignore_index=UNLABELLED)
    share = logits.softmax(1)
    known = labels != UNLABELLED
    truth = F.one_hot(torch.where(known, labels, 0), share.shape[1]).permute(0, 3, 1, 2)
    share, truth = share * known[:, None], truth * known[:, None]
    common = (share * truth).sum((0, 2, 3))
    present = truth.sum((0, 2, 3))
    overlap = common / (share.sum((0, 2, 3)) + present - common).clamp_min(1.0)
    here = (present > 0).float()
    jaccard = ((1 - overlap) * here).sum() / here.sum().clamp_min(1)
    return entropy + jaccard, {"entropy": entropy.detach(), "jaccard": jaccard.detach()}


def classification(logits: Tensor, classes: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of `signal`: cross-entropy with smoothed labels; and the share of right answers."""
    loss = F.cross_entropy(logits.float(), classes, label_smoothing=0.05)
    return loss, {"right": (logits.detach().argmax(1) == classes).float().mean()}
