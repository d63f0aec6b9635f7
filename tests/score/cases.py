#!/usr/bin/env python3
"""Random cases for the scoring code, with the figures that reference implementations give them.

    pip install numpy pycocotools scikit-learn
    python tests/score/cases.py > tests/score/cases.json

Detections are scored by pycocotools, every ignored object being a crowd of every class, which is the rule that
src/replay/score/detection.rs states; label maps by scikit-learn's jaccard_score over the pixels of all frames; crops by
scikit-learn's accuracy_score over the pairs of the crops that were made from an object. Coordinates are multiples of 1/4
and scores of 1/16, so that equal scores and overlaps of exactly one half happen. The library's own tests (src/replay/score/reference.rs) compare themselves with the file.
"""

import contextlib
import io
import json
import sys

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from sklearn.metrics import accuracy_score, jaccard_score

SEED = 20
CASES = 40


def box(rng, side):
    x, y = rng.integers(0, 4 * (100 - side), 2) / 4
    w, h = rng.integers(8, 4 * side, 2) / 4
    return [x, y, x + w, y + h]


def near(rng, bounds):
    """A box that overlaps another one: the same, half of it, or moved a little."""
    x0, y0, x1, y1 = bounds
    kind = rng.integers(0, 4)
    if kind == 0:
        return list(bounds)
    if kind == 1:
        return [x0, y0, x0 + (x1 - x0) / 2, y1]
    moved = [v + d for v, d in zip(bounds, rng.integers(-12, 13, 4) / 4)]
    return [moved[0], moved[1], max(moved[2], moved[0] + 0.25), max(moved[3], moved[1] + 0.25)]


def detection_case(rng):
    classes = int(rng.integers(1, 4))
    frames = []
    for _ in range(int(rng.integers(1, 6))):
        crowded = int(rng.integers(0, 9))
        actual = [
            {"class": int(rng.integers(0, classes)), "box": box(rng, 40), "ignored": bool(rng.random() < 0.25)}
            for _ in range(crowded)
        ]
        found = []
        for a in actual:
            for _ in range(int(rng.integers(0, 3))):
                label = a["class"] if rng.random() < 0.85 else int(rng.integers(0, classes))
                found.append({"class": label, "score": int(rng.integers(1, 17)) / 16, "box": near(rng, a["box"])})
        for _ in range(int(rng.integers(0, 4))):
            found.append({"class": int(rng.integers(0, classes)), "score": int(rng.integers(1, 17)) / 16, "box": box(rng, 40)})
        rng.shuffle(found)
        frames.append({"actual": actual, "found": found})
    average = coco(classes, frames)
    counted = [a for a in average if a is not None]
    return {"classes": classes, "frames": frames, "average": average, "mean": float(np.mean(counted)) if counted else None}


def coco(classes, frames):
    """Average precision of each class at an IoU of one half, by pycocotools; None where there is nothing to find."""

    def wh(bounds):
        x0, y0, x1, y1 = bounds
        return [x0, y0, x1 - x0, y1 - y0]

    objects, found = [], []
    for image, frame in enumerate(frames, 1):
        for a in frame["actual"]:
            for label in range(classes) if a["ignored"] else [a["class"]]:
                bounds = wh(a["box"])
                objects.append(
                    {
                        "id": len(objects) + 1,
                        "image_id": image,
                        "category_id": label + 1,
                        "bbox": bounds,
                        "area": bounds[2] * bounds[3],
                        "iscrowd": int(a["ignored"]),
                    }
                )
        for f in frame["found"]:
            found.append({"image_id": image, "category_id": f["class"] + 1, "bbox": wh(f["box"]), "score": f["score"]})
    if not any(o["iscrowd"] == 0 for o in objects):
        return [None] * classes
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {
            "info": {},
            "images": [{"id": i + 1} for i in range(len(frames))],
            "categories": [{"id": c + 1} for c in range(classes)],
            "annotations": objects,
        }
        truth.createIndex()
        # pycocotools does not load an empty list: an empty result is built by hand.
        results = truth.loadRes(found) if found else empty(truth)
        run = COCOeval(truth, results, "bbox")
        run.params.iouThrs = np.array([0.5])
        run.params.areaRng, run.params.areaRngLbl = [[0, 1e10]], ["all"]
        run.params.maxDets = [1000]
        run.evaluate()
        run.accumulate()
    precision = run.eval["precision"][0, :, :, 0, 0]
    return [None if precision[0, c] < 0 else float(np.mean(precision[:, c])) for c in range(classes)]


def empty(truth):
    results = COCO()
    results.dataset = {**truth.dataset, "annotations": []}
    results.createIndex()
    return results


def map_case(rng):
    classes = int(rng.integers(2, 8))
    frames = []
    for _ in range(int(rng.integers(1, 4))):
        actual = rng.integers(0, classes, 60)
        wrong = rng.random(60) < rng.random()
        found = np.where(wrong, rng.integers(0, classes, 60), actual)
        # A class that is never found, or never there, now and then.
        if rng.random() < 0.3:
            found[found == 0] = 1
        if rng.random() < 0.3:
            actual[actual == classes - 1] = 0
        frames.append({"actual": actual.tolist(), "found": found.tolist()})
    actual = np.concatenate([f["actual"] for f in frames])
    found = np.concatenate([f["found"] for f in frames])
    labels = sorted(set(actual.tolist()) | set(found.tolist()))
    each = dict(zip(labels, jaccard_score(actual, found, labels=labels, average=None, zero_division=0).tolist()))
    mean = float(jaccard_score(actual, found, labels=labels, average="macro", zero_division=0))
    return {"classes": classes, "frames": frames, "iou": [each.get(c) for c in range(classes)], "mean": mean}


def crop_case(rng):
    """Objects far from each other; crops of some of them, of their class or another, and crops of nothing."""
    signals = int(rng.integers(2, 7))
    frames, pairs = [], []
    for _ in range(int(rng.integers(1, 5))):
        objects, crops = [], []
        for place in range(int(rng.integers(0, 7))):
            bounds = [100.0 * place, 0.0, 100.0 * place + 40.0, 40.0]
            actual = {"class": int(rng.integers(4, 6)), "box": bounds, "signal": int(rng.integers(0, signals))}
            objects.append(actual)
            best = actual["signal"] if rng.random() < 0.6 else int(rng.integers(0, signals))
            shift = float(rng.choice([0.0, 5.0, 10.0, 30.0]))
            label = actual["class"] if rng.random() < 0.85 else 9 - actual["class"]
            moved = [bounds[0] + shift, bounds[1], bounds[2] + shift, bounds[3]]
            if rng.random() < 0.8:
                crops.append({"class": label, "box": moved, "best": best})
                # Shifted by a quarter the overlap is three fifths, by three quarters a seventh.
                if shift < 30 and label == actual["class"]:
                    pairs.append((actual["signal"], best))
        crops.append({"class": 5, "box": [900.0, 300.0, 940.0, 340.0], "best": 0})
        rng.shuffle(crops)
        frames.append({"objects": objects, "crops": crops})
    share = float(accuracy_score(*zip(*pairs))) if pairs else None
    return {"signals": signals, "frames": frames, "share": share}


def main():
    rng = np.random.default_rng(SEED)
    kinds = {"detection": detection_case, "segmentation": map_case, "classification": crop_case}
    cases = {}
    for name, make in kinds.items():
        cases[name] = [make(rng) for _ in range(CASES)]
    # The odd ones: nothing found, nothing there, nothing at all.
    one = {"class": 0, "box": [0.0, 0.0, 10.0, 10.0]}
    for actual, found in [([{**one, "ignored": False}], []), ([], [{**one, "score": 0.5}]), ([], []), ([{**one, "ignored": True}], [])]:
        frames = [{"actual": actual, "found": found}]
        average = coco(1, frames)
        cases["detection"].append({"classes": 1, "frames": frames, "average": average, "mean": average[0]})
    json.dump(cases, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
