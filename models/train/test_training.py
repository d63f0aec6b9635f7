"""Checks of the training scripts on pictures of flat shapes: `python -m pytest test_training.py`, or run as a program.

Training on the shapes:

    python test_training.py --learn scout --minutes 8                         trains on shapes and prints the accuracy as it rises
    python test_training.py --learn scout --full --device cuda --batch 96     the same at the real size: tells the speed of a machine

A few minutes bring `scout` to an accuracy of 1 on them: a check of the whole loop, no measure of the network.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import augment
import crops
import dataset
import losses
import metrics
import train
from augment import Motion, Uniform
from export import export, trained
from networks import NETWORKS
from networks.layers import fold
from spec import CROP, LEAST_HEIGHT, LIGHT, NO_SIGNAL, SIGN
from store import Objects, load_crop_classes, load_objects, upload
from tasks import TASKS

# Camera pictures of the checks: small, for a CPU; `--full` takes the real size.
SMALL, FULL = (192, 384), (720, 1280)
COLOURS = np.array([[200, 30, 30], [30, 60, 200], [230, 200, 60], [40, 180, 90], [20, 20, 20], [240, 240, 240]], np.float32)


def scene(rng: np.random.Generator, frame: int, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A picture of sky and road with rectangles, one colour a class, its label map and its objects."""
    high, wide = size
    picture = np.full((high, wide, 3), 120, np.float32)
    labels = np.full((high, wide), 6, np.uint8)
    picture[: high // 3], labels[: high // 3] = [150, 190, 240], 5
    picture[high // 2 :], labels[high // 2 :] = [90, 90, 95], 0
    for x in range(0, wide, 80):
        picture[high - 60 : high - 50, x : x + 40], labels[high - 60 : high - 50, x : x + 40] = 255, 1
    count = int(rng.integers(1, 2 + wide // 160))
    rows = np.zeros(count, dataset.OBJECT)
    for i, row in enumerate(rows):
        kind, height = int(rng.integers(6)), int(rng.integers(20, 90))
        width = int(height * (2 if kind < 2 else 0.6 if kind < 5 else 1.0))
        # One column each, so that none hides another.
        x, y = i * wide // count + int(rng.integers(0, max(1, wide // count - width))), int(rng.integers(0, high - height))
        box = [x, y, min(x + width, (i + 1) * wide // count), y + height]
        picture[box[1] : box[3], box[0] : box[2]] = COLOURS[kind]
        labels[box[1] : box[3], box[0] : box[2]] = 3 if kind < 2 else 4 if kind < 4 else 6
        signal = dataset.NONE
        if kind in (LIGHT, SIGN):
            # The class of a light or sign is a dark bar at one of eight heights.
            signal = int(rng.integers(8)) + (0 if kind == LIGHT else 8)
            at = box[1] + height * (signal % 8) // 8
            picture[at : at + max(2, height // 8), box[0] : box[2]] = 110
        row["frame"], row["box"], row["class"], row["visible"], row["signal"] = frame, box, kind, 1.0, signal
        row["ignored"] = height < LEAST_HEIGHT
    picture += rng.normal(0, 4, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8), labels, rows


def write_split(out: Path, frames: int, seed: int, size: tuple[int, int]) -> None:
    """A split in the format of dataset.py."""
    out.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    scenes = [scene(rng, i, size) for i in range(frames)]
    np.save(out / "pictures.npy", np.stack([dataset.halve(p) for p, _, _ in scenes]))
    np.save(out / "labels.npy", np.stack([dataset.halve_labels(m) for _, m, _ in scenes]))
    np.save(out / "full.npy", np.stack([m for _, m, _ in scenes]))
    np.save(out / "objects.npy", np.concatenate([o for _, _, o in scenes]))
    cut = [(p, o["box"][k], int(o["signal"][k])) for p, _, o in scenes for k in crops.wanted(o, True)]
    cut += [(p, b, NO_SIGNAL) for p, m, o in scenes for b in crops.false_alarms(rng, m, o, 1)]
    np.save(out / "crops.npy", np.stack([crops.context(p, b) for p, b, _ in cut]))
    np.save(out / "exact.npy", np.stack([crops.crop(p, b) for p, b, _ in cut]))
    (out / "about.json").write_text(json.dumps({"classes": [c for _, _, c in cut], "seeds": [seed, seed], "frames": frames}))


def write_shapes(folder: Path, frames: int, size: tuple[int, int] = SMALL) -> Path:
    write_split(folder / "train", frames, 1, size)
    write_split(folder / "held", 24, 2, size)
    return folder


def test_half_pictures_are_means_rounded_up_and_labels_the_most_frequent():
    picture = np.array([[[1, 0, 255], [2, 0, 255]], [[2, 1, 255], [1, 1, 255]]], np.uint8)
    assert dataset.halve(picture).tolist() == [[[2, 1, 255]]]
    labels = np.array([[0, 0, 6, 6, 5, 5], [1, 0, 1, 1, 5, 5]], np.uint8)
    assert dataset.halve_labels(labels).tolist() == [[0, 1, 5]]


def test_a_crop_is_the_bilinear_sample_of_the_enlarged_box():
    y, x = np.mgrid[0:200, 0:300].astype(np.float32)
    picture = np.stack((x * 0.5, y, np.full_like(x, 7)), 2)
    box = np.array([100, 50, 140, 90], np.float32)
    cut = crops.crop(picture, box)
    j = np.arange(CROP)
    assert np.allclose(cut[:, :, 0], 0.5 * (96 + (j + 0.5) * 48 / CROP - 0.5), atol=1e-3)
    assert np.allclose(cut[:, 0, 1], 46 + (j + 0.5) * 48 / CROP - 0.5, atol=1e-3)
    assert np.allclose(cut[:, :, 2], 7)


RENDERER = """#!{python}
import argparse, json, pathlib, sys
sys.path.insert(0, {here!r})
import numpy as np
import test_training as shapes
if sys.argv[1] == "--version":
    sys.exit(print("renderer of shapes"))
p = argparse.ArgumentParser()
for name in ("seed", "frames", "every", "workers"):
    p.add_argument("--" + name, type=int)
p.add_argument("--format")
p.add_argument("--out", type=pathlib.Path)
args = p.parse_args(sys.argv[2:])
rng = np.random.default_rng(args.seed)
scenes = [shapes.scene(rng, i, shapes.FULL) for i in range(args.frames)]
np.stack([s[0] for s in scenes]).tofile(args.out / "frames.bin")
np.stack([s[1] for s in scenes]).tofile(args.out / "labels.bin")
with open(args.out / "truth.jsonl", "w") as f:
    for i, (_, _, rows) in enumerate(scenes):
        objects = []
        for k, r in enumerate(rows):
            signal = None if r["signal"] == 255 else int(r["signal"])
            known = dict(id=k, box=r["box"].tolist(), visible=float(r["visible"]), ignored=bool(r["ignored"]), signal=signal)
            objects.append(known | {{"class": int(r["class"])}})
        f.write(json.dumps(dict(frame=i * args.every, seed=args.seed, objects=objects)) + "\\n")
"""


def test_rendered_seeds_become_one_data_set():
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "platoon")
        binary.write_text(RENDERER.format(python=sys.executable, here=str(Path(__file__).parent)))
        binary.chmod(0o755)
        args = argparse.Namespace(binary=binary, out=Path(folder), every=17, alarms=1, workers=2, scratch=Path(folder))
        dataset.build("train", args, range(5, 8), 2, training=True)
        dataset.build("held", args, range(1, 3), 2, training=False)
        cpu = torch.device("cpu")
        for split, frames in (("train", 6), ("held", 4)):
            pictures = upload(Path(folder, split, "pictures.npy"), cpu)
            objects = load_objects(Path(folder, split, "objects.npy"), frames, cpu)
            assert pictures.shape == (frames, 360, 640, 3)
            # The middle of every large box has the colour of its class: pictures and objects of the parallel jobs fit together.
            seen = 0
            for picture, boxes, classes in zip(pictures, objects.boxes, objects.classes):
                for box, kind in zip(boxes[classes >= 0], classes[classes >= 0]):
                    if kind < 4:
                        x, y = ((box[:2] + box[2:]) / 2).long().tolist()
                        assert np.abs(picture[y, x].numpy() - COLOURS[kind]).max() < 20
                        seen += 1
            assert seen > 0
        classes = load_crop_classes(Path(folder, "held"), cpu)
        assert len(classes) == len(np.load(Path(folder, "held/exact.npy"))) == len(np.load(Path(folder, "held/crops.npy")))
        assert NO_SIGNAL in classes.tolist() and np.load(Path(folder, "held/full.npy")).shape == (4, 720, 1280)


def test_boxes_move_with_the_pixels():
    u = Uniform(torch.Generator().manual_seed(3), torch.device("cpu"))
    picture = torch.zeros(6, 160, 320, 3, dtype=torch.uint8)
    picture[:, 60:100, 100:160] = 255
    truth = Objects(
        torch.tensor([[[100.0, 60, 160, 100]]]).repeat(6, 1, 1), torch.zeros(6, 1).long(), torch.ones(6, 1), torch.zeros(6, 1).bool()
    )
    motion = Motion.random(u, 6, (160, 320), 1.0)
    moved = augment.pictures(picture, motion)[:, 0] > 180
    boxes, trains, ignored = augment.objects(truth, motion, (160, 320))
    for pixels, box, counted in zip(moved, boxes[:, 0], (trains | ignored)[:, 0]):
        ys, xs = torch.nonzero(pixels, as_tuple=True)
        assert bool(counted) == bool(len(xs))
        if len(xs):
            found = torch.stack((xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)).float()
            assert (found - box).abs().max() <= 1.5


def test_every_object_gets_cells_that_may_answer():
    cells = losses.Cells.of((192, 320), torch.device("cpu"))
    truth = torch.tensor([[[13.0, 21, 18, 33], [100, 50, 220, 120], [0, 0, 0, 0]]])
    rows = torch.zeros(1, len(cells.at), 11)
    kinds, valid = torch.tensor([[2, 0, -1]]), torch.tensor([[True, True, False]])
    scores = torch.full((1, len(cells.at), 6), 0.1)
    owner, target = losses.assign(cells, cells.boxes(rows), scores, truth, kinds, valid)
    assert set(owner.unique().tolist()) == {-1, 0, 1}
    assert bool((target[owner >= 0] > 0).all()) and bool((target[owner < 0] == 0).all())


def test_perfect_rows_cost_nothing_and_score_one():
    cells = losses.Cells.of((192, 320), torch.device("cpu"))
    truth = torch.tensor([[[40.0, 40, 72, 72], [200, 60, 260, 120]]])
    kinds, none = torch.tensor([[1, 5]]), torch.zeros(1, 2).bool()
    rows = torch.full((1, len(cells.at), 11), -12.0)
    rows[..., :4] = 0
    centre = (truth[0, :, :2] + truth[0, :, 2:]) / 2
    for k, (c, box) in enumerate(zip(centre, truth[0])):
        cell = int(((cells.at + 0.5) * 8 - c).square().sum(1)[: 24 * 40].argmin())
        rows[0, cell, :2] = c / 8 - cells.at[cell]
        rows[0, cell, 2:4] = torch.log((box[2:] - box[:2]) / 8)
        rows[0, cell, 4] = rows[0, cell, 5 + int(kinds[0, k])] = 12.0
    boxes, scores = cells.boxes(rows), rows[..., 4:5].sigmoid() * rows[..., 5:].sigmoid()
    found = metrics.detections(boxes, scores)
    each = metrics.average_precision(found, [(truth[0].numpy(), kinds[0].numpy(), none[0].numpy())], 6)
    assert each[1] == each[5] == 1.0 and np.isnan(each[0])
    # A second box on the same object is false; on an ignored one it is nothing.
    extra = np.concatenate((found[0], [[300, 10, 320, 30, 0.999999, 1.0]])).astype(np.float32)
    assert metrics.average_precision([extra], [(truth[0].numpy(), kinds[0].numpy(), none[0].numpy())], 6)[1] == 0.5
    spared = np.concatenate((truth[0].numpy(), [[298, 8, 322, 32]])).astype(np.float32)
    ignored = (spared, np.array([1, 5, 0]), np.array([False, False, True]))
    assert metrics.average_precision([extra], [ignored], 6)[1] == 1.0


def test_folding_keeps_the_function():
    torch.manual_seed(5)
    for name, shape in (("scout", (1, 3, 64, 96)), ("surface", (1, 3, 64, 96)), ("signal", (2, 3, 64, 64))):
        network = NETWORKS[name]()
        for m in network.modules():
            if isinstance(m, torch.nn.BatchNorm2d):
                m.running_mean.normal_(0, 0.2)
                m.running_var.uniform_(0.5, 2)
                m.weight.data.uniform_(0.5, 1.5)
        x = torch.randn(shape)
        with torch.no_grad():
            expected = network.eval()(x)
            assert torch.allclose(fold(network)(x), expected, atol=1e-3, rtol=1e-3), name


def test_training_pauses_resumes_and_its_weights_export():
    with tempfile.TemporaryDirectory() as folder:
        data = write_shapes(Path(folder, "data"), 8)
        for name, shape in (("scout", (1, 3, 64, 96)), ("surface", (1, 3, 64, 96)), ("signal", (8, 3, 64, 64))):
            out = Path(folder, name)
            line = [name, "--data", str(data), "--out", str(out), "--batch", "2", "--device", "cpu", "--steps"]
            train.train(train.arguments([*line, "2"]))
            train.train(train.arguments([*line, "3", "--resume"]))
            steps = [json.loads(r)["step"] for r in (out / "log.jsonl").read_text().splitlines()]
            assert steps[-1] == 3 and sorted(steps) == steps
            network, about = trained(name, out / "weights.pt")
            assert about["steps"] == 3
            assert export(name, network, out / "network.onnx", True, shape) < 1e-2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learn", choices=sorted(TASKS))
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--full", action="store_true", help="pictures of the real size")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    if args.learn:
        with tempfile.TemporaryDirectory() as folder:
            data = write_shapes(Path(folder, "data"), args.frames, FULL if args.full else SMALL)
            line = [args.learn, "--data", str(data), "--out", folder, "--batch", str(args.batch), "--minutes", str(args.minutes)]
            line += ["--device", args.device, "--say", "10", "--measure", "1", *(["--compile"] if args.compile else [])]
            train.train(train.arguments(line))
        return
    for name, check in list(globals().items()):
        if name.startswith("test_"):
            check()
            print("ok", name)


if __name__ == "__main__":
    main()
