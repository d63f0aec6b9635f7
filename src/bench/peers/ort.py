"""ONNX Runtime as the other side of a comparison: one line of JSON in, one line of JSON out.

First line out:  {"version": "..."}
{"load": [{"onnx": path, "inputs": {name: shape}, "range": [low, high]}, ...], "threads": n}  ->  {"loaded": count, "spinning": bool}
{"run": count, "warm": count}  ->  {"ns": [time of the whole set, ...]}
Whatever fails gives {"error": "..."}.

By default the idle threads of a session spin. With several sessions they take the cores from the session whose turn it
is; with one session spinning saves time. Both are tried at load, and the faster is kept.
"""

import json
import sys
import time


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def sessions(request, spinning):
    options = ort.SessionOptions()
    options.intra_op_num_threads = request["threads"]
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
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


def load(request):
    best = None
    for spinning in (True, False):
        networks = sessions(request, spinning)
        time.sleep(REST)
        fastest = min(run(networks, {"warm": 1, "run": TRIALS}))
        if best is None or fastest < best[0]:
            best = (fastest, networks, spinning)
        # The slower sessions end here, and their threads with them.
        del networks
    return best[1], best[2]


# Runs of a whole set that choose between the settings, and seconds of rest before them.
TRIALS = 5
REST = 0.02

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
            loaded = []
            loaded, spinning = load(wanted)
            say({"loaded": len(loaded), "spinning": spinning})
        else:
            say({"ns": run(loaded, wanted)})
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
