"""PyTorch as the other side of the zoo: one line of JSON in, one line of JSON out. Follows the text of zoo/models.py.

First line out:  {"version": "...", "device": "..."}
{"load": [{"network": name or a saved program's file, "batch": n}, ...], "dtype": "f32"|"f16", "threads": n,
 "ways": [{"mode": "eager"|"inductor", "graph": bool, "streams": bool}, ...]}
    ->  {"loaded": count, "ways": count}
{"run": count, "warm": count, "way": index}
    ->  {"ns": [time of the whole set, ...], "network_ns": [the same on a GPU's own clock, ...]}
Whatever fails gives {"error": "..."}.

On a GPU the networks run one after another or, with `streams`, each on a stream of its own: issued from Python or, with `graph`,
captured into one CUDA graph. A time is that of the issue and the wait for its end; of a graph there is a second one on the GPU's
clock, between events around it that are queued behind a short pause, so that no launch is in it. Inputs and results stay on the
GPU. TF32 is off. The variable SMS=n confines the process to n multiprocessors by a green context. Without a GPU the networks run
one after another on `threads` threads. `inductor` is torch.compile in its default mode, with frozen weights; a network is
compiled once for all ways.
"""

import json
import os
import sys
import time
import warnings


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def prepared(name, batch, dtype, mode):
    """The module and its inputs."""
    if name.endswith(".pt2"):
        model, data = saved(name, dtype)
    else:
        model, data = of_the_zoo(name, batch, dtype, mode)
    if mode == "inductor":
        model = torch.compile(model, dynamic=False)
    return model, data


def of_the_zoo(name, batch, dtype, mode):
    construct, (kind, first, second), _ = MODELS[name]
    torch.manual_seed(0)
    model = construct().eval().to(DEVICE)
    if mode == "eager":
        model = fused(model)
    model = model.to(dtype)
    if kind == "image":
        layout = torch.channels_last
        model = model.to(memory_format=layout)
        data = torch.randn(batch, 3, first, second, device=DEVICE, dtype=dtype).to(memory_format=layout)
    else:
        data = torch.randint(0, second, (batch, first), device=DEVICE)
    return model, [data]


def saved(file, dtype):
    """A program that torch.export.save wrote, with inputs like its examples: floats of mean 0 and mean square 1, integers 0."""
    from torch.export.passes import move_to_device_pass

    program = torch.export.load(file)
    examples, named = program.example_inputs
    if named:
        raise ValueError(f"{file} takes inputs by name: export it with positional ones")
    model = move_to_device_pass(program, DEVICE).module()
    # Operators that keep to themselves what types and strides they were traced with: those are others now.
    for node in [n for n in model.graph.nodes if n.target is torch.ops.aten._assert_tensor_metadata.default]:
        model.graph.erase_node(node)
    model.recompile()
    model = model.to(dtype)
    torch.manual_seed(0)
    data = []
    for example in examples:
        like = torch.randn(example.shape) if example.is_floating_point() else torch.zeros_like(example)
        like = like.to(DEVICE, dtype if example.is_floating_point() else example.dtype)
        data.append(like.to(memory_format=torch.channels_last) if like.dim() == 4 else like)
    for parameter in [*model.parameters(), *model.buffers()]:
        if parameter.dim() == 4:
            parameter.data = parameter.data.to(memory_format=torch.channels_last)
    return model, data


def fused(model):
    """Batch normalisations folded into convolutions, where the module can be traced."""
    from torch.fx.experimental.optimization import fuse

    try:
        return fuse(model)
    except Exception:
        return model


def all_of(networks, streams):
    """A function that runs all networks."""

    def in_turn():
        return [model(*data) for model, data in networks]

    def side_by_side():
        current = torch.cuda.current_stream()
        results = []
        for stream, (model, data) in zip(streams, networks):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                results.append(model(*data))
        for stream in streams:
            current.wait_stream(stream)
        return results

    return side_by_side if streams else in_turn


def captured(work):
    """The work as a CUDA graph, warmed up on a stream of its own."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        keep = work()
    # The results live as long as the graph that writes them.
    graph.results = keep
    return graph


def load(request):
    """One function a way, which runs the whole set."""
    torch.set_num_threads(request["threads"])
    dtype = {"f32": torch.float32, "f16": torch.float16}[request["dtype"]]
    modes = sorted({way["mode"] for way in request["ways"]})
    networks = {mode: [prepared(n["network"], n["batch"], dtype, mode) for n in request["load"]] for mode in modes}
    return [way_of(networks[way["mode"]], way) for way in request["ways"]]


def way_of(networks, way):
    on_gpu = DEVICE == "cuda"
    streams = [torch.cuda.Stream() for _ in networks] if on_gpu and way["streams"] else []
    work = all_of(networks, streams)
    if not on_gpu:
        work()
        return work
    graph = captured(work) if way["graph"] else None

    def run_once():
        graph.replay() if graph else work()
        torch.cuda.synchronize()

    if graph is None:
        for _ in range(WARM):
            run_once()
    run_once.graph = graph
    return run_once


def on_the_gpu(graph):
    """The graph's time in nanoseconds by events."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(PAUSE)
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return round(1e6 * start.elapsed_time(end))


def run(work, request):
    times = []
    for _ in range(request["warm"] + request["run"]):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    graph = getattr(work, "graph", None)
    answer = {"ns": times[request["warm"] :]}
    if graph is not None:
        answer["network_ns"] = [on_the_gpu(graph) for _ in range(request["run"])]
    return answer


# Runs before a capture: libraries choose their kernels in the first ones.
WARM = 5
# Cycles that the GPU waits before a timed graph: longer than its launch takes the host.
PAUSE = 500_000

try:
    warnings.filterwarnings("ignore")
    import torch

    MODELS = zoo()
    DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
    if DEVICE == "cuda" and os.environ.get("SMS"):
        from torch.cuda.green_contexts import GreenContext

        CONFINED = GreenContext.create(num_sms=int(os.environ["SMS"]), device_id=0)
        CONFINED.set_context()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    import torch._inductor.config

    torch._inductor.config.freezing = True
    torch._inductor.config.layout_optimization = True
except Exception as error:
    say({"error": f"{type(error).__name__}: {error}"})
    sys.exit(0)

say({"version": torch.__version__, "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"})
loaded = None
with torch.no_grad():
    for line in sys.stdin:
        try:
            wanted = json.loads(line)
            if "load" in wanted:
                loaded = None
                loaded = load(wanted)
                say({"loaded": len(wanted["load"]), "ways": len(loaded)})
            else:
                say(run(loaded[wanted["way"]], wanted))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})
