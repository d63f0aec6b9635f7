"""Renders driving scenes and reduces them to a data set of a few large arrays.

`platoon scenes` renders each seed's frames raw into a scratch folder; they are reduced there and deleted. One folder a split:

    pictures.npy   u8  [N, 360, 640, 3]   camera pictures at the networks' scale: mean of 2x2 pixels, rounded half up, as on board
    labels.npy     u8  [N, 360, 640]      label map at that scale
    objects.npy    structured, one row an object: frame, box (camera pixels), class, visible, ignored, signal
    crops.npy      u8  [C, 96, 96, 3]     lights, signs and false alarms with their surroundings (1.6 times the box)
    crops.json     classes and heights of the crops; seeds, frames, the command and its version
  and, for a split that accuracy is measured on:
    exact.npy      f32 [C, 64, 64, 3]     the crops exactly as the runtime cuts them
    full.npy       u8  [N, 720, 1280]     label maps of the camera picture

Of the labels of 2x2 pixels the most frequent is taken, since this is what a prediction at half resolution, doubled again, is best
compared with; at a tie the rarer class wins (an intersection over union loses less by it: thin lane marks, persons far away).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import crops
from spec import NO_SIGNAL, PICTURE_HEIGHT, PICTURE_WIDTH, SURFACE_CLASSES

OBJECT = np.dtype([("frame", "i4"), ("box", "f4", 4), ("class", "u1"), ("visible", "f4"), ("ignored", "?"), ("signal", "u1")])
# `signal` of an object that is neither light nor sign.
NONE = 255
# Which class wins a tie among four pixels, rarest last: sky, other, road, sidewalk, vehicle, person, lane mark.
RARITY = np.array([2, 6, 3, 4, 5, 0, 1], np.int8)


@dataclass(frozen=True)
class Job:
    """One seed's share of the data set."""

    binary: str
    seed: int
    index: int
    frames: int
    every: int
    alarms: int
    training: bool
    scratch: str
    out: str


def halve(picture: np.ndarray) -> np.ndarray:
    """Mean of 2x2 pixels, rounded half up: u8 `[H, W, 3]` -> u8 `[H/2, W/2, 3]`."""
    wide = picture.astype(np.uint16)
    rows = wide[0::2] + wide[1::2]
    return ((rows[:, 0::2] + rows[:, 1::2] + 2) >> 2).astype(np.uint8)


def halve_labels(labels: np.ndarray) -> np.ndarray:
    """Most frequent label of 2x2 pixels, the rarer class at a tie: u8 `[H, W]` -> u8 `[H/2, W/2]`."""
    four = (labels[0::2, 0::2], labels[0::2, 1::2], labels[1::2, 0::2], labels[1::2, 1::2])
    best = np.full(four[0].shape, -1, np.int8)
    chosen = four[0].copy()
    for c in range(len(SURFACE_CLASSES)):
        count = sum((q == c).astype(np.int8) for q in four)
        votes = np.where(count > 0, count * 8 + RARITY[c], -1).astype(np.int8)
        better = votes > best
        best[better] = votes[better]
        chosen[better] = c
    return chosen


def read_truth(path: Path, frames: int) -> list[np.ndarray]:
    """Ground truth of each frame, from `truth.jsonl`."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    if len(lines) != frames:
        raise ValueError(f"{path}: {len(lines)} frames, but {frames} were asked for")
    result = []
    for line in lines:
        rows = np.zeros(len(line["objects"]), OBJECT)
        for row, o in zip(rows, line["objects"]):
            signal = NONE if o["signal"] is None else o["signal"]
            row["box"] = o["box"]
            row["class"], row["visible"], row["ignored"], row["signal"] = o["class"], o["visible"], o["ignored"], signal
        result.append(rows)
    return result


def run(job: Job) -> tuple[np.ndarray, np.ndarray, list[int], list[float], np.ndarray]:
    """Renders and reduces one seed: its pictures and labels go to the arrays on disk, objects and crops are returned."""
    with tempfile.TemporaryDirectory(dir=job.scratch) as folder:
        command = [
            job.binary,
            "scenes",
            "--seed",
            job.seed,
            "--frames",
            job.frames,
            "--every",
            job.every,
            "--format",
            "raw",
            "--workers",
            1,
        ]
        done = subprocess.run([*map(str, command), "--out", folder], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))} failed: {done.stderr.strip()}")
        shape = (job.frames, PICTURE_HEIGHT, PICTURE_WIDTH)
        pictures = np.fromfile(Path(folder, "frames.bin"), np.uint8).reshape(*shape, 3)
        labels = np.fromfile(Path(folder, "labels.bin"), np.uint8).reshape(shape)
        truth = read_truth(Path(folder, "truth.jsonl"), job.frames)

    start = job.index * job.frames
    rows = slice(start, start + job.frames)
    out = Path(job.out)
    np.load(out / "pictures.npy", "r+")[rows] = np.stack([halve(p) for p in pictures])
    np.load(out / "labels.npy", "r+")[rows] = np.stack([halve_labels(m) for m in labels])
    if not job.training:
        np.load(out / "full.npy", "r+")[rows] = labels

    rng = np.random.default_rng(job.seed)
    contexts, exact, classes, heights = [], [], [], []
    for i, (picture, objects) in enumerate(zip(pictures, truth)):
        objects["frame"] = start + i
        picks = crops.wanted(objects, job.training)
        boxes = [(objects["box"][k], int(objects["signal"][k])) for k in picks]
        boxes += [(box, NO_SIGNAL) for box in crops.false_alarms(rng, labels[i], objects, job.alarms)]
        for box, kind in boxes:
            contexts.append(crops.context(picture, box))
            classes.append(kind)
            heights.append(float(box[3] - box[1]))
            if not job.training:
                exact.append(crops.crop(picture, box))
    none = np.zeros((0, 1, 1, 3), np.uint8)
    everything = np.stack(exact) if exact else none
    return np.concatenate(truth), np.stack(contexts) if contexts else none, classes, heights, everything


def allocate(out: Path, name: str, shape: tuple[int, ...]) -> None:
    np.lib.format.open_memmap(out / name, "w+", np.uint8, shape).flush()


def build(split: str, args: argparse.Namespace, seeds: range, frames: int, training: bool) -> None:
    """Renders all seeds of a split in parallel and writes its arrays."""
    out = args.out / split
    out.mkdir(parents=True, exist_ok=True)
    total = len(seeds) * frames
    allocate(out, "pictures.npy", (total, PICTURE_HEIGHT // 2, PICTURE_WIDTH // 2, 3))
    allocate(out, "labels.npy", (total, PICTURE_HEIGHT // 2, PICTURE_WIDTH // 2))
    if not training:
        allocate(out, "full.npy", (total, PICTURE_HEIGHT, PICTURE_WIDTH))
    scratch = str(args.scratch)
    jobs = [Job(str(args.binary), s, i, frames, args.every, args.alarms, training, scratch, str(out)) for i, s in enumerate(seeds)]
    parts, began, said = [], time.monotonic(), 0.0
    with ProcessPoolExecutor(args.workers, multiprocessing.get_context("spawn")) as pool:
        for part in pool.map(run, jobs):
            parts.append(part)
            now = time.monotonic() - began
            if now - said > 10 or len(parts) == len(jobs):
                said = now
                print(f"{split}: {len(parts)}/{len(jobs)} seeds, {now:.0f} s", file=sys.stderr, flush=True)
    objects, contexts, classes, heights, exact = zip(*parts)
    held = [c for c in contexts if len(c)]
    np.save(out / "objects.npy", np.concatenate(objects))
    np.save(out / "crops.npy", np.concatenate(held))
    if not training:
        np.save(out / "exact.npy", np.concatenate([e for e in exact if len(e)]))
    version = subprocess.run([str(args.binary), "--version"], capture_output=True, text=True).stdout.strip()
    about = {
        "seeds": [seeds.start, seeds.stop - 1],
        "frames": total,
        "every": args.every,
        "renderer": version,
        "classes": [c for part in classes for c in part],
        "heights": [h for part in heights for h in part],
    }
    (out / "about.json").write_text(json.dumps(about))
    counted = np.concatenate(objects)
    names = np.bincount(counted["class"][~counted["ignored"]], minlength=6).tolist()
    kinds = np.bincount(about["classes"], minlength=NO_SIGNAL + 1).tolist()
    print(json.dumps({"split": split, "frames": total, "objects": names, "crops": kinds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True, help="the `platoon` executable, built with --release")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1280, help="training seeds, from --first on")
    parser.add_argument("--first", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=16, help="frames a training seed")
    parser.add_argument("--every", type=int, default=23, help="frames of the drive from one kept frame to the next")
    parser.add_argument("--held-seeds", type=int, default=64, help="seeds of the split `held`, for accuracy while training")
    parser.add_argument("--held-first", type=int, default=900_000)
    parser.add_argument("--held-frames", type=int, default=4)
    parser.add_argument("--alarms", type=int, default=2, help="false alarms cut a frame")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm") if os.path.isdir("/dev/shm") else Path(tempfile.gettempdir()))
    parser.add_argument("--only", choices=["train", "held"])
    args = parser.parse_args()
    if shutil.which(args.binary) is None:
        parser.error(f"{args.binary} is not an executable")
    if args.only != "train":
        build("held", args, range(args.held_first, args.held_first + args.held_seeds), args.held_frames, training=False)
    if args.only != "held":
        build("train", args, range(args.first, args.first + args.seeds), args.frames, training=True)


if __name__ == "__main__":
    main()
