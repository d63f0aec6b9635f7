"""The data set in the memory of the device that trains: large arrays as u8 tensors, objects as padded tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass
class Objects:
    """Ground truth of N frames, padded to M objects; boxes in pixels of the networks' picture (half the camera's)."""

    boxes: Tensor  # f32 [N, M, 4]
    classes: Tensor  # i64 [N, M], -1 in empty places
    visible: Tensor  # f32 [N, M]
    ignored: Tensor  # bool [N, M]


def upload(path: Path, device: torch.device, chunk: int = 512) -> Tensor:
    """An array of a data set as a tensor on the device, copied piece by piece."""
    array = np.load(path, mmap_mode="r")
    result = torch.empty(array.shape, dtype=torch.from_numpy(array[:0].copy()).dtype, device=device)
    for start in range(0, len(array), chunk):
        result[start : start + chunk] = torch.from_numpy(np.array(array[start : start + chunk])).to(device)
    return result


def load_objects(path: Path, frames: int, device: torch.device) -> Objects:
    """The objects of `objects.npy` as a table a frame; they stand in it in order of their frames."""
    rows = np.load(path)
    counts = np.bincount(rows["frame"], minlength=frames)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (frames, max(1, int(counts.max(initial=0))))
    boxes, classes = np.zeros((*shape, 4), np.float32), np.full(shape, -1, np.int64)
    visible, ignored = np.zeros(shape, np.float32), np.zeros(shape, bool)
    at = (rows["frame"], places)
    boxes[at], classes[at], visible[at], ignored[at] = rows["box"] / 2, rows["class"], rows["visible"], rows["ignored"]
    return Objects(*(torch.from_numpy(a).to(device) for a in (boxes, classes, visible, ignored)))


def about(folder: Path) -> dict[str, Any]:
    """What dataset.py noted of a split."""
    return json.loads((folder / "about.json").read_text())


def load_crop_classes(folder: Path, device: torch.device) -> Tensor:
    """Classes of the crops: i64 `[C]`."""
    return torch.tensor(about(folder)["classes"], dtype=torch.int64, device=device)
