//! A task set in which one network classifies crops of what another one detects, as files: networks, cards, tasks.
//!
//! `scout` finds the same three boxes in every picture: a car (0, 0)-(16, 16), a sign (16, 16)-(32, 32) and a light
//! (32, 32)-(48, 48), in pixels of a camera of 64 x 48, with scores of 0.9, 0.7 and 0.5. `signal` says whether a crop of a
//! sign or a light is dark or bright: its scores are the softmax of `2 - mean / 64` and `mean / 64 - 2`.

use crate::onnx::Graph;
use std::path::Path;

/// Values of a row of the head: box, objectness, three classes.
const ROW: usize = 8;
/// Cells of a 32 x 32 input at strides 8, 16 and 32.
const CELLS: usize = 16 + 4 + 1;

/// A head that is the same for every picture: `(cell, class, score)` for each box of 8 x 8 pixels centred in its cell.
fn scout(boxes: &[(usize, usize, f32)]) -> Vec<u8> {
    let mut head = vec![0.0; CELLS * ROW];
    for &(cell, class, score) in boxes {
        let row = &mut head[cell * ROW..][..ROW];
        (row[0], row[1], row[4], row[5 + class]) = (0.5, 0.5, 1.0, score);
    }
    let mut values = head.into_iter();
    let size = (CELLS * ROW) as i64;
    Graph::default()
        .input("picture", &[1, 3, 32, 32])
        .integers("flat", &[1, 3 * 32 * 32])
        .constant("nothing", &[3 * 32 * 32, size], || 0.0)
        .constant("head", &[1, size], || values.next().unwrap_or_default())
        .integers("rows", &[1, CELLS as i64, ROW as i64])
        .node("Reshape", "picture flat", "pixels", &[])
        .node("MatMul", "pixels nothing", "zeros", &[])
        .node("Add", "zeros head", "sum", &[])
        .node("Reshape", "sum rows", "boxes", &[])
        .output("boxes")
        .file()
}

/// Four crops to two scores each.
fn signal() -> Vec<u8> {
    const VALUES: i64 = 3 * 8 * 8;
    let (mut column, mut bias) = (0, -2.0);
    let weight = || {
        column = 1 - column;
        (2 * column - 1) as f32 / (VALUES * -64) as f32
    };
    let shift = || {
        bias = -bias;
        bias
    };
    Graph::default()
        .input("crops", &[4, 3, 8, 8])
        .integers("flat", &[4, VALUES])
        .constant("weights", &[VALUES, 2], weight)
        .constant("bias", &[2], shift)
        .node("Reshape", "crops flat", "values", &[])
        .node("MatMul", "values weights", "means", &[])
        .node("Add", "means bias", "shades", &[])
        .output("shades")
        .file()
}

/// Writes `tasks.toml` and all it needs into `dir`; `every` is the rate of `signal`.
pub fn write(dir: &Path, every: u16) {
    let put = |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).expect("the folder can be written to");
    put("scout.onnx", &scout(&[(0, 0, 0.9), (5, 2, 0.7), (10, 1, 0.5)]));
    put("signal.onnx", &signal());
    let card =
        |name: &str| format!("name = \"{name}\"\nonnx = \"{name}.onnx\"\nsource = \"made by this test\"\nlicence = \"Apache-2.0\"\n");
    let detection = "[input]\nfit = \"letterbox-top-left\"\nfill = 114\n[detection]\ndecoder = \"yolox\"\nscore = 0.3\niou = 0.5\nmax = 9\n\
                     labels = [\"car\", \"light\", \"sign\"]\n";
    let classification = "[input]\ncrops = { classes = [\"sign\", \"light\"], margin = 0.1 }\n\
                          [classification]\nk = 1\nsoftmax = true\nlabels = [\"dark\", \"bright\"]\n";
    put("scout.toml", (card("scout") + detection).as_bytes());
    put("signal.toml", (card("signal") + classification).as_bytes());
    let camera = "default = \"day\"\n[[cameras]]\nname = \"front\"\nmax_width = 64\nmax_height = 48\n";
    let tenant = |name: &str| format!("[[sets.day.tenants]]\nname = \"{name}\"\nmodel = \"{name}.toml\"\ncameras = [\"front\"]\n");
    let sources = format!("every = {every}\nsources = [\"scout\"]\n");
    put(
        "tasks.toml",
        (camera.to_owned() + &tenant("scout") + &tenant("signal") + &sources).as_bytes(),
    );
}
