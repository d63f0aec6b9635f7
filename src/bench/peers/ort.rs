//! ONNX Runtime, through a script of ours in a Python that has its wheel.

use super::{Peer, PeerError, start};

const SCRIPT: &str = include_str!("ort.py");

impl Peer {
    /// ONNX Runtime in the Python interpreter `program`.
    pub fn onnxruntime(program: &str) -> Result<Peer, PeerError> {
        start(program, "onnxruntime and numpy", "onnxruntime", SCRIPT, &[])
    }
}
