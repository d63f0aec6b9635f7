"""Times cuDNN on the convolutions of shapes.txt: the best algorithm it finds, with bias and relu fused, in a CUDA graph.

usage: conv_peer.py SHAPES        (SMS=16 in the environment confines it to a green context)
One line a shape and batch: microseconds with rotating tensors (cold) and with one set (warm), and of the convolution
alone, without bias and relu, with rotating tensors. Medians of graph replays of 20 copies, as conv_mma_bench does it.
"""
import os
import statistics
import sys

import torch

COPIES = 20


def graph_time(step, count):
    """Median microseconds of step(i % count), i = 0..20, as one graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(count):
            step(i)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(COPIES):
                step(i % count)
        times = []
        for i in range(9):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if i >= 2:
                times.append(begin.elapsed_time(end) * 1e3 / COPIES)
    return statistics.median(times)


def main():
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0
    if os.environ.get("SMS"):
        from torch.cuda.green_contexts import GreenContext
        green = GreenContext.create(num_sms=int(os.environ["SMS"]), device_id=0)
        green.set_context()
    for batch in (1, 8):
        for line in open(sys.argv[1]):
            if line.startswith("#") or not line.strip():
                continue
            name, *numbers = line.split()
            c, h, w, o, k, s, p = map(int, numbers)
            oh, ow = (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1
            size = 2 * (batch * c * h * w + o * c * k * k + batch * o * oh * ow)
            count = min(COPIES, (160 << 20) // size + 1)
            last = torch.channels_last
            xs = [torch.randn(batch, c, h, w, device="cuda", dtype=torch.half).to(memory_format=last) for _ in range(count)]
            ws = [(torch.randn(o, c, k, k, device="cuda", dtype=torch.half) * (c * k * k) ** -0.5).to(memory_format=last) for _ in range(count)]
            b = torch.randn(o, device="cuda", dtype=torch.half)

            def fused(i):
                return torch.cudnn_convolution_relu(xs[i], ws[i], b, (s, s), (p, p), (1, 1), 1)

            def alone(i):
                return torch.nn.functional.conv2d(xs[i], ws[i], None, s, p)

            with torch.no_grad():
                cold = graph_time(fused, count)
                warm = graph_time(fused, 1)
                bare = graph_time(alone, count)
            print(f"{name:16s} b{batch} {cold:7.2f} us cold {warm:7.2f} warm {bare:7.2f} alone", flush=True)


main()
