"""ONNX Runtime as the other side of a comparison: one line of JSON in, one line of JSON out.

First line out:  {"version": "..."}
{"load": [{"onnx": path, "inputs": {name: shape}, "range": [low, high]}, ...], "threads": n}  ->  {"loaded": count}
{"run": count, "warm": count}  ->  {"ns": [time of the whole set, ...]}
Whatever fails gives {"error": "..."}.
"""

import json
import sys
import time


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def load(request):
    options = ort.SessionOptions()
    options.intra_op_num_threads = request["threads"]
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    rng = np.random.default_rng(0)
    networks = []
    for network in request["load"]:
        session = ort.InferenceSession(network["onnx"], options, providers=["CPUExecutionProvider"])
        low, high = network["range"]
        feed = {}
        for port in session.get_inputs():
            shape = network["inputs"][port.name]
            dtype = DTYPES[port.type]
            if np.issubdtype(dtype, np.floating):
                feed[port.name] = rng.uniform(low, high, shape).astype(dtype)
            else:
                feed[port.name] = np.zeros(shape, dtype)
        networks.append((session, feed))
    return networks


def run(networks, request):
    times = []
    for _ in range(request["warm"] + request["run"]):
        start = time.perf_counter_ns()
        for session, feed in networks:
            session.run(None, feed)
        times.append(time.perf_counter_ns() - start)
    return times[request["warm"] :]


try:
    import numpy as np
    import onnxruntime as ort
except Exception as error:
    say({"error": str(error)})
    sys.exit(0)

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}
say({"version": ort.__version__})
loaded = []
for line in sys.stdin:
    try:
        wanted = json.loads(line)
        if "load" in wanted:
            loaded = load(wanted)
            say({"loaded": len(loaded)})
        else:
            say({"ns": run(loaded, wanted)})
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
