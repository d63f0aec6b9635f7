"""Accuracy of weights or of an exported network on a rendered split:

    evaluate.py scout --data DIR --weights runs/scout/weights.pt
    evaluate.py scout --data DIR --weights ../scout/scout.onnx

DIR holds the split `held` (see dataset.py). An .onnx file runs in f32 under onnxruntime on the CPU, a .pt file on `--device`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from networks import NETWORKS
from tasks import TASKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=sorted(TASKS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    device = torch.device(args.device)
    if args.weights.suffix == ".onnx":
        # Only here, as onnxruntime is needed for nothing else.
        from export import Onnx

        network = Onnx(args.weights)
        device = torch.device("cpu")
    else:
        network = NETWORKS[args.network]()
        network.load_state_dict(torch.load(args.weights, map_location="cpu", weights_only=True)["weights"])
        network = network.eval().to(device, memory_format=torch.channels_last)
    accuracy = TASKS[args.network](args.data, device, training=False).accuracy(network)
    print(json.dumps({"network": args.network, "weights": str(args.weights), **{k: round(v, 4) for k, v in accuracy.items()}}))


if __name__ == "__main__":
    main()
