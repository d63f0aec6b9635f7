"""Writes a trained network as ONNX: `export.py scout --weights runs/scout/weights.pt --out ../scout/scout.onnx`.

Batch normalisations are folded into the convolutions; the shapes are static. Weights are stored in f16, each widened to f32 by a Cast
that every runtime folds when it loads the file: half the size, and the numbers are the same on every backend and in both types.
The file is checked with onnxruntime against PyTorch on the same rounded weights.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from networks import NETWORKS
from networks.layers import fold, multiplications, parameters
from spec import CROP, CROPS, PICTURE_HEIGHT, PICTURE_WIDTH, canvas

OPSET = 17
SIDES = canvas(PICTURE_HEIGHT // 2, PICTURE_WIDTH // 2)
INPUTS = {
    "scout": ("picture", (1, 3, *SIDES)),
    "surface": ("picture", (1, 3, *SIDES)),
    "signal": ("crops", (CROPS, 3, CROP, CROP)),
}
OUTPUTS = {"scout": "rows", "surface": "logits", "signal": "logits"}


def trained(name: str, weights: Path | None) -> tuple[nn.Module, dict]:
    """The network in evaluation mode with folded normalisations, and what training noted about it."""
    network, about = NETWORKS[name](), {}
    if weights:
        content = torch.load(weights, map_location="cpu", weights_only=True)
        network.load_state_dict(content["weights"])
        about = content["about"]
    return fold(network.eval().requires_grad_(False)), about


def round_weights(network: nn.Module) -> None:
    """Rounds all weights to f16, in place. A weight beyond its range is an error, as is one that is no number."""
    for name, p in network.named_parameters():
        rounded = p.data.half().float()
        if not torch.isfinite(rounded).all():
            raise ValueError(f"{name} does not fit f16: the largest value is {p.abs().max():.3g}")
        p.data.copy_(rounded)


def store_half(model: onnx.ModelProto) -> None:
    """Stores every f32 constant of the graph that f16 holds exactly as f16, with a Cast to f32 before its users."""
    graph, casts, kept = model.graph, [], []
    for tensor in graph.initializer:
        values = numpy_helper.to_array(tensor)
        half = values.astype(np.float16) if tensor.data_type == TensorProto.FLOAT else None
        if half is None or values.size < 16 or not np.array_equal(half.astype(np.float32), values):
            kept.append(tensor)
            continue
        kept.append(numpy_helper.from_array(half, tensor.name + ".f16"))
        casts.append(helper.make_node("Cast", [tensor.name + ".f16"], [tensor.name], "widen." + tensor.name, to=TensorProto.FLOAT))
    nodes = casts + list(graph.node)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)


def export(name: str, network: nn.Module, out: Path, half: bool, shape: tuple[int, ...] | None = None) -> float:
    """Writes the network to `out`; returns the largest difference between onnxruntime and PyTorch on random input."""
    tensor, usual = INPUTS[name]
    if half:
        round_weights(network)
    sample = torch.randn(shape or usual, generator=torch.Generator().manual_seed(1))
    out.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        # Sides that become constants are meant: the shapes are static. The tracing exporter needs no package besides PyTorch.
        warnings.simplefilter("ignore")
        names = {"input_names": [tensor], "output_names": [OUTPUTS[name]]}
        torch.onnx.export(network, (sample,), str(out), **names, opset_version=OPSET, dynamo=False)
    model = onnx.load(str(out))
    if half:
        store_half(model)
    model.graph.name = name
    model.doc_string = ""
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(out))
    with torch.no_grad():
        expected = network(sample).numpy()
    result = Onnx(out)(sample).numpy()
    difference = float(np.abs(result - expected).max())
    if difference > 2e-3 * max(1.0, float(np.abs(expected).max())):
        raise ValueError(f"{out}: onnxruntime differs from PyTorch by {difference}")
    return difference


class Onnx(nn.Module):
    """An exported network under onnxruntime, called like the PyTorch one with a batch of any size."""

    def __init__(self, path: Path):
        super().__init__()
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0]

    def forward(self, x: Tensor) -> Tensor:
        step = self.input.shape[0]
        results = []
        for part in x.float().cpu().contiguous().split(step):
            padded = np.zeros((step, *part.shape[1:]), np.float32)
            padded[: len(part)] = part.numpy()
            results.append(torch.from_numpy(self.session.run(None, {self.input.name: padded})[0][: len(part)]))
        return torch.cat(results).to(x.device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("--weights", type=Path, help="weights.pt of a training run; without it random weights are written")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--f32", action="store_true", help="store the weights in f32")
    args = parser.parse_args()
    torch.manual_seed(1)
    network, about = trained(args.network, args.weights)
    work = multiplications(network, torch.zeros(INPUTS[args.network][1]))
    difference = export(args.network, network, args.out, not args.f32)
    data = args.out.read_bytes()
    facts = {
        **about,
        "file": args.out.name,
        "digest": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "parameters": parameters(network),
        "multiplications": work,
        "difference": difference,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
