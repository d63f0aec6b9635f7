"""Compares what `platoon bench --zoo NAME --export DIR` wrote with PyTorch on the same weights and input.

usage: compare.py [--limit RELATIVE] DIR [NAME ...]

For each network, DIR/NAME holds parameters/<name in torchvision>.npy, inputs/*.npy and outputs/*.npy. Every parameter must
have its place in the module and every place its parameter, but for the counters of batches that normalisations keep. Runs in
f32 (TF32 off) on a GPU if there is one. Prints, for each output, its range and the largest difference, also relative to the
largest magnitude of the output; exits 1 if that exceeds the limit anywhere. The usual limit is that of results in f32. A GPU
computes in f16, with weights rounded to it: there 0.004 holds for all of the zoo.
"""

import argparse
import os
import sys

import numpy as np
import torch

from models import zoo

# In f32 orders of summation differ, nothing else.
LIMIT = 1e-4
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def arrays(folder):
    files = sorted(os.listdir(folder))
    return {name.removesuffix(".npy"): np.load(os.path.join(folder, name)) for name in files if name.endswith(".npy")}


def compare(folder, construct):
    model = construct().eval()
    state = {name: torch.from_numpy(array) for name, array in arrays(os.path.join(folder, "parameters")).items()}
    counters = {name for name in model.state_dict() if name.endswith("num_batches_tracked")}
    missing, unexpected = model.load_state_dict(state, strict=False)
    missing = set(missing) - counters
    if missing or unexpected:
        raise SystemExit(f"{folder}: parameters missing {sorted(missing)}, left over {sorted(unexpected)}")
    ((_, data),) = arrays(os.path.join(folder, "inputs")).items()
    data = torch.from_numpy(data)
    with torch.no_grad():
        found = model.to(DEVICE)((data if data.is_floating_point() else data.long()).to(DEVICE))
    found = found if isinstance(found, tuple) else (found,)
    ours = arrays(os.path.join(folder, "outputs"))
    # The modules return their outputs in the order of the names.
    assert len(found) == len(ours), f"{folder}: {len(ours)} outputs for {len(found)}"
    for (name, our), their in zip(ours.items(), found):
        their = their.cpu().numpy()
        assert our.shape == their.shape, f"{folder}: {name} is {our.shape}, not {their.shape}"
        yield name, their.min(), their.max(), np.abs(our - their).max(), np.abs(our - their).max() / np.abs(their).max()


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="RELATIVE")
    arguments = parser.parse_args()
    folder, names = arguments.folder, arguments.names
    known = zoo()
    worst = 0.0
    print(f"torch {torch.__version__} on {DEVICE}")
    print(f"{'network':8} {'output':16} {'lowest':>10} {'highest':>10} {'difference':>12} {'relative':>12}")
    for name in names or [name for name in known if os.path.isdir(os.path.join(folder, name))]:
        for output, low, high, difference, relative in compare(os.path.join(folder, name), known[name][0]):
            print(f"{name:8} {output:16} {low:10.4f} {high:10.4f} {difference:12.3e} {relative:12.3e}", flush=True)
            # A difference that is no number is too large.
            worst = max(worst, relative) if relative == relative else float("inf")
    sys.exit(1 if worst > arguments.limit else 0)


main()
