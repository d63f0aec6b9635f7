//! Pools of every kernel: the bits of the processor, whatever the window, and whatever part of it lies outside.

use crate::onnx::{Graph, int, ints};
use crate::processor::check_bits;
use platoon::planner::Ports;
use platoon::tensor::DType;

/// A square window over a picture.
struct Window {
    op: &'static str,
    x: [i64; 4],
    kernel: i64,
    stride: i64,
    pad: i64,
    /// Of an average: positions in the padding count.
    count_pad: bool,
}

const fn average(x: [i64; 4], [kernel, stride, pad]: [i64; 3], count_pad: bool) -> Window {
    Window {
        op: "AveragePool",
        x,
        kernel,
        stride,
        pad,
        count_pad,
    }
}

const fn maximum(x: [i64; 4], [kernel, stride, pad]: [i64; 3]) -> Window {
    Window {
        op: "MaxPool",
        ..average(x, [kernel, stride, pad], false)
    }
}

/// Windows of few and of many taps; channels that fill a block's, some of them, and no whole group; windows almost all outside.
const WINDOWS: [Window; 16] = [
    average([2, 128, 32, 31], [17, 8, 8], true),
    average([1, 256, 16, 32], [17, 8, 8], false),
    average([1, 256, 16, 32], [9, 4, 4], true),
    average([2, 200, 20, 21], [7, 3, 2], false),
    average([1, 40, 63, 64], [6, 1, 0], false),
    average([3, 8, 9, 9], [9, 1, 0], false),
    average([1, 136, 7, 5], [13, 1, 6], false),
    average([1, 20, 30, 30], [8, 4, 1], true),
    average([2, 64, 29, 30], [3, 2, 1], false),
    average([1, 16, 14, 14], [5, 1, 2], true),
    maximum([2, 64, 57, 58], [3, 2, 1]),
    maximum([1, 32, 20, 21], [13, 1, 6]),
    maximum([1, 24, 40, 40], [7, 3, 3]),
    maximum([1, 128, 20, 20], [5, 1, 2]),
    maximum([2, 40, 23, 19], [5, 1, 2]),
    average([1, 512, 8, 16], [5, 2, 2], true),
];

/// Windows over pictures of few channels whose results are put together.
const JOINED: [Window; 3] = [
    average([2, 3, 33, 40], [3, 2, 1], true),
    maximum([2, 5, 33, 40], [3, 2, 1]),
    average([2, 1, 34, 40], [2, 2, 0], false),
];

/// Windows over pictures of few channels, behind whose pools nothing follows.
const FEW: [Window; 15] = [
    average([64, 1, 32, 56], [2, 2, 0], false),
    average([2, 3, 33, 40], [3, 2, 1], false),
    average([2, 3, 33, 41], [3, 2, 1], true),
    average([1, 5, 20, 20], [4, 3, 1], true),
    maximum([1, 3, 40, 41], [3, 2, 1]),
    maximum([2, 1, 31, 30], [2, 2, 0]),
    maximum([1, 2, 17, 64], [5, 1, 2]),
    maximum([3, 7, 9, 10], [3, 1, 1]),
    average([1, 3, 180, 320], [3, 2, 1], false),
    average([2, 4, 21, 30], [3, 2, 1], true),
    average([1, 6, 19, 27], [3, 1, 1], false),
    average([1, 7, 40, 9], [2, 1, 1], true),
    average([3, 2, 3, 3], [3, 1, 1], false),
    maximum([1, 6, 23, 24], [2, 1, 1]),
    average([1, 4, 31, 33], [6, 4, 3], true),
];

fn model(windows: &[Window], function_behind: bool) -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, w) in windows.iter().enumerate() {
        let (x, p, y) = (format!("x{i}"), format!("p{i}"), format!("y{i}"));
        let mut attributes = vec![
            ints("kernel_shape", &[w.kernel; 2]),
            ints("strides", &[w.stride; 2]),
            ints("pads", &[w.pad; 4]),
        ];
        if w.count_pad {
            attributes.push(int("count_include_pad", 1));
        }
        graph = graph.input(&x, &w.x);
        graph = if function_behind {
            graph.node(w.op, &x, &p, &attributes).node("Abs", &p, &y, &[])
        } else {
            graph.node("Abs", &x, &p, &[]).node(w.op, &p, &y, &attributes)
        };
        graph = graph.output(&y);
    }
    graph.file()
}

/// The windows' pools as channels of one picture, and its absolute values, for which pixels lie as in it.
fn joined(windows: &[Window]) -> Vec<u8> {
    let mut graph = Graph::default();
    let mut parts = Vec::new();
    for (i, w) in windows.iter().enumerate() {
        let (x, p, y) = (format!("x{i}"), format!("p{i}"), format!("y{i}"));
        let attributes = [
            ints("kernel_shape", &[w.kernel; 2]),
            ints("strides", &[w.stride; 2]),
            ints("pads", &[w.pad; 4]),
            int("count_include_pad", i64::from(w.count_pad)),
        ];
        let attributes = &attributes[..3 + usize::from(w.count_pad)];
        graph = graph.input(&x, &w.x).node("Abs", &x, &p, &[]).node(w.op, &p, &y, attributes);
        parts.push(y);
    }
    let graph = graph.node("Concat", &parts.join(" "), "all", &[int("axis", 1)]);
    graph.node("Abs", "all", "y", &[]).output("y").file()
}

#[test]
fn joined_pools_of_few_channels_have_the_processors_bits() {
    check_bits(
        "gpu_joined_pools_of_few_channels_have_the_processors_bits",
        &joined(&JOINED),
        &[(DType::F32, Ports::Declared), (DType::F16, Ports::Half)],
        &format!("{} pools", JOINED.len()),
    );
}

#[test]
fn pools_have_the_processors_bits() {
    check_bits(
        "gpu_pools_have_the_processors_bits",
        &model(&WINDOWS, true),
        &[(DType::F32, Ports::Declared), (DType::F16, Ports::Half)],
        &format!("{} pools", WINDOWS.len()),
    );
}

#[test]
fn pools_of_few_channels_have_the_processors_bits() {
    check_bits(
        "gpu_pools_of_few_channels_have_the_processors_bits",
        &model(&FEW, false),
        &[(DType::F32, Ports::Declared), (DType::F16, Ports::Half)],
        &format!("{} pools", FEW.len()),
    );
}

/// Pictures of few channels, and the kernels, strides and distances of taps of maxima over them.
const SPREAD: [([i64; 4], [i64; 3]); 4] = [
    ([1, 3, 30, 41], [3, 1, 2]),
    ([2, 5, 24, 24], [2, 2, 3]),
    ([1, 1, 40, 33], [4, 3, 2]),
    ([3, 7, 17, 19], [3, 2, 5]),
];

/// Maxima of taps that lie apart, some of them outside.
fn spread() -> Vec<u8> {
    let mut graph = Graph::default();
    for (i, (dims, [kernel, stride, apart])) in SPREAD.iter().enumerate() {
        let (x, a, y) = (format!("x{i}"), format!("a{i}"), format!("y{i}"));
        let attributes = [
            ints("kernel_shape", &[*kernel; 2]),
            ints("strides", &[*stride; 2]),
            ints("dilations", &[*apart; 2]),
            ints("pads", &[1; 4]),
        ];
        graph = graph.input(&x, dims).node("Abs", &x, &a, &[]).node("MaxPool", &a, &y, &attributes);
        graph = graph.output(&y);
    }
    graph.file()
}

#[test]
fn pools_of_taps_apart_have_the_processors_bits() {
    check_bits(
        "gpu_pools_of_taps_apart_have_the_processors_bits",
        &spread(),
        &[(DType::F32, Ports::Declared), (DType::F16, Ports::Half)],
        &format!("{} pools", SPREAD.len()),
    );
}
