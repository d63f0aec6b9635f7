"""Cutting crops for `signal` out of the camera picture, as the runtime does, and boxes that hold neither light nor sign."""

from __future__ import annotations

import numpy as np

from spec import CONTEXT, CONTEXT_SIDE, CROP, LIGHT, MARGIN, NO_SIGNAL, SIGN

# Label-map classes on which false alarms of a detector lie.
VEHICLE, PERSON, OTHER = 3, 4, 6


def sample(picture: np.ndarray, box: np.ndarray, side: int) -> np.ndarray:
    """Samples a box (x0, y0, x1, y1 in pixels, may reach outside) bilinearly to f32 `[side, side, 3]`, stretched.

    Result pixel (i, j) reads x = x0 + (j + 0.5) * width / side - 0.5 and y likewise; neighbours are clamped to the picture.
    """
    height, width = picture.shape[:2]
    x0, y0, x1, y1 = (float(v) for v in box)

    def axis(start: float, extent: float, limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        at = start + (np.arange(side) + 0.5) * extent / side - 0.5
        low = np.floor(at)
        clamp = lambda v: np.clip(v, 0, limit - 1).astype(np.int64)
        return clamp(low), clamp(low + 1), (at - low).astype(np.float32)

    xa, xb, xf = axis(x0, x1 - x0, width)
    ya, yb, yf = axis(y0, y1 - y0, height)
    xf, yf = xf[None, :, None], yf[:, None, None]
    pick = lambda y, x: picture[y[:, None], x[None, :]].astype(np.float32)
    top = pick(ya, xa) * (1 - xf) + pick(ya, xb) * xf
    bottom = pick(yb, xa) * (1 - xf) + pick(yb, xb) * xf
    return top * (1 - yf) + bottom * yf


def grow(box: np.ndarray, share: float) -> np.ndarray:
    """The box enlarged by a share of its width and height on each side."""
    x0, y0, x1, y1 = box
    dx, dy = share * (x1 - x0), share * (y1 - y0)
    return np.array([x0 - dx, y0 - dy, x1 + dx, y1 + dy], np.float32)


def crop(picture: np.ndarray, box: np.ndarray) -> np.ndarray:
    """What `signal` sees of a detection: f32 `[64, 64, 3]`, not rounded."""
    return sample(picture, grow(box, MARGIN), CROP)


def context(picture: np.ndarray, box: np.ndarray) -> np.ndarray:
    """The box with its surroundings, from which training cuts jittered crops: u8 `[96, 96, 3]`."""
    return np.floor(sample(picture, grow(box, (CONTEXT - 1) / 2), CONTEXT_SIDE) + 0.5).astype(np.uint8)


def wanted(objects: np.ndarray, training: bool) -> np.ndarray:
    """Indices of the lights and signs to cut: what counts, and for training smaller and dimmer ones too (from 14 pixels)."""
    known = ((objects["class"] == LIGHT) | (objects["class"] == SIGN)) & (objects["signal"] <= NO_SIGNAL)
    height = objects["box"][:, 3] - objects["box"][:, 1]
    width = objects["box"][:, 2] - objects["box"][:, 0]
    if training:
        return np.flatnonzero(known & (height >= 14) & (width >= 5) & (objects["visible"] >= 0.5))
    return np.flatnonzero(known & ~objects["ignored"])


def false_alarms(rng: np.random.Generator, labels: np.ndarray, objects: np.ndarray, count: int) -> list[np.ndarray]:
    """Boxes where a detector may err: on buildings, trees, poles, parts of vehicles and persons, away from every light and sign."""
    height, width = labels.shape
    taken = objects["box"][(objects["class"] == LIGHT) | (objects["class"] == SIGN)]
    found: list[np.ndarray] = []
    for _ in range(40 * count):
        if len(found) == count:
            break
        side = float(np.exp(rng.uniform(np.log(16), np.log(140))))
        tall = side * float(rng.choice([1.0, 1.0, 1.6, 2.4])) * float(rng.uniform(0.85, 1.15))
        x = float(rng.uniform(0, width - side)) if side < width else 0.0
        y = float(rng.uniform(0, 0.75 * height))
        box = np.array([x, y, x + side, min(y + tall, height)], np.float32)
        if box[3] - box[1] < 14:
            continue
        under = labels[int((box[1] + box[3]) / 2), int((box[0] + box[2]) / 2)]
        share = {OTHER: 1.0, VEHICLE: 0.7, PERSON: 0.7}.get(int(under), 0.1)
        if rng.uniform() < share and not _touches(box, taken):
            found.append(box)
    return found


def _touches(box: np.ndarray, others: np.ndarray) -> bool:
    """True if the box covers a tenth of another, or is covered by a tenth of itself."""
    if len(others) == 0:
        return False
    w = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    h = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    both = np.clip(w, 0, None) * np.clip(h, 0, None)
    area = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    own = (box[2] - box[0]) * (box[3] - box[1])
    return bool((both > 0.1 * np.minimum(area, own)).any())
