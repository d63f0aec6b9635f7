"""Accuracy as the runtime scores it: mean average precision at an overlap of 0.5, mean intersection over union, top-1."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from losses import area, pairs

# As in the card of `scout`: lowest score that counts, overlap above which the worse of two boxes of a class goes, most boxes a picture.
LEAST_SCORE, SUPPRESS, MOST = 0.01, 0.6, 100
CANDIDATES = 400
MATCH = 0.5
RECALLS = np.linspace(0, 1, 101)


@torch.no_grad()
def detections(boxes: Tensor, scores: Tensor) -> list[np.ndarray]:
    """Non-maximum suppression per class: `[B, A, 4]` and `[B, A, C]` -> a picture's rows of (x0, y0, x1, y1, score, class)."""
    batch, _, classes = scores.shape
    best = scores.flatten(1).topk(min(CANDIDATES, scores[0].numel()), 1)
    cell, kind = best.indices // classes, best.indices % classes
    chosen = boxes.gather(1, cell[:, :, None].expand(-1, -1, 4))
    covers = (pairs(chosen, chosen)[1] > SUPPRESS) & (kind[:, :, None] == kind[:, None, :])
    keep = best.values > LEAST_SCORE
    later = torch.arange(keep.shape[1], device=keep.device)
    for i in range(keep.shape[1]):
        keep = keep & ~(covers[:, i] & (later > i) & keep[:, i : i + 1])
    rows = torch.cat((chosen, best.values[:, :, None], kind[:, :, None].float()), 2)
    rows, keep = rows.cpu().numpy(), keep.cpu().numpy()
    return [rows[b][keep[b]][:MOST] for b in range(batch)]


def _overlaps(boxes: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intersection over union, and the share of each of `boxes` that lies on each of `others`: `[D, G]` each."""
    a, b = torch.from_numpy(boxes[None]).float(), torch.from_numpy(others[None]).float()
    common, iou = pairs(a, b)
    return iou[0].numpy(), (common[0] / area(a)[0][:, None].clamp_min(1e-6)).numpy()


def average_precision(found: list[np.ndarray], truth: list[tuple[np.ndarray, np.ndarray, np.ndarray]], classes: int) -> np.ndarray:
    """Average precision of each class (NaN where nothing counts), over 101 recalls.

    `truth` is a picture's boxes, classes and ignored flags. Detections claim objects of their class in falling score, the free one
    of largest overlap, at least 0.5. One that claims none is false, unless more than half of it lies on an ignored object of any class.
    """
    result = np.full(classes, np.nan)
    for c in range(classes):
        scores, hits, count = [], [], 0
        for rows, (boxes, kinds, ignored) in zip(found, truth):
            mine = rows[rows[:, 5] == c]
            mine = mine[np.argsort(-mine[:, 4], kind="stable")]
            asked = (kinds == c) & ~ignored
            count += int(asked.sum())
            iou = _overlaps(mine[:, :4], boxes[asked])[0]
            lies = _overlaps(mine[:, :4], boxes[ignored])[1]
            free = np.ones(iou.shape[1], bool)
            for d in range(len(mine)):
                open_ = np.where(free, iou[d], -1.0)
                g = int(open_.argmax()) if len(open_) else -1
                if g >= 0 and open_[g] >= MATCH:
                    free[g] = False
                elif (lies[d] > 0.5).any():
                    continue
                else:
                    g = -1
                scores.append(mine[d, 4])
                hits.append(g >= 0)
        if count == 0:
            continue
        order = np.argsort(-np.array(scores), kind="stable")
        true = np.cumsum(np.array(hits, bool)[order])
        precision = true / np.arange(1, len(true) + 1)
        recall = true / count
        precision = np.maximum.accumulate(precision[::-1])[::-1]
        at = np.searchsorted(recall, RECALLS, side="left")
        result[c] = np.append(precision, 0.0)[np.minimum(at, len(precision))].mean()
    return result


def confusion(predicted: Tensor, truth: Tensor, classes: int) -> Tensor:
    """Counts of (truth, prediction) over label maps of equal shape: i64 `[C, C]`."""
    pairs_ = truth.flatten().long() * classes + predicted.flatten().long()
    return torch.bincount(pairs_, minlength=classes * classes).view(classes, classes)


def intersection_over_union(counts: Tensor) -> np.ndarray:
    """Intersection over union of each class (NaN where it occurs neither in truth nor in prediction)."""
    counts = counts.double().cpu()
    both = counts.diagonal()
    either = counts.sum(0) + counts.sum(1) - both
    return torch.where(either > 0, both / either.clamp_min(1), torch.nan).numpy()
