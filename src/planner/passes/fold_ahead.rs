//! Per-channel constants in front of a convolution move into its weights and bias.
//!
//! Networks that normalise what a block reads (He et al. 2016, "Identity mappings in deep residual networks") have batch
//! normalisation where nothing before it may take it. Exact but for rounding: `sum w (s x + t) + b = sum (w s) x + (b + sum w t)`.
//! A shift does not go through a window that reads beyond the picture's edge, where there is nothing to be shifted.

use super::fold_batchnorm::{floats, per_channel, plain_bias, plain_weights};
use super::rewrite::Index;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Binary, Primitive};
use crate::tensor::Shape;
use std::sync::Arc;

pub fn run(graph: &mut Graph) {
    let mut index = Index::of(graph);
    let mut node = 0;
    while node < graph.nodes.len() {
        match find(graph, &index, node) {
            Some(fold) => {
                apply(graph, node, fold);
                index = Index::of(graph);
                node -= 1;
            }
            None => node += 1,
        }
    }
    super::drop_dead::run(graph);
}

/// What a convolution reads and has instead of what a function in front of it does.
struct Fold {
    function: usize,
    input: ValueId,
    weights: Vec<f32>,
    shape: Shape,
    bias: Option<Vec<f32>>,
}

fn find(graph: &Graph, index: &Index, conv: usize) -> Option<Fold> {
    let Op::Primitive(primitive @ Primitive::Conv { window, groups }) = graph.nodes[conv].op else {
        return None;
    };
    let read = graph.nodes[conv].inputs[0];
    let (function, Primitive::Binary(kind)) = index.primitive(graph, read)? else {
        return None;
    };
    let kind = *kind;
    let [a, b] = graph.nodes[function].inputs[..] else { return None };
    let commutes = matches!(kind, Binary::Add | Binary::Mul);
    let (input, values) = match (per_channel(graph, index, b, 1), per_channel(graph, index, a, 1)) {
        (Some(values), None) => (a, values),
        (None, Some(values)) if commutes => (b, values),
        _ => return None,
    };
    if index.uses[read.index()] != 1 || graph.value(input).data.is_some() {
        return None;
    }
    let weights = plain_weights(graph, index, &graph.nodes[conv], &primitive)?;
    let shape = weights.shape();
    let outputs = shape.dim(0) as usize;
    let (per_output, taps) = ((weights.len() / outputs.max(1)).max(1), window.taps() as usize);
    let channels = per_output / taps.max(1);
    // The input channel of a weight.
    let channel = |i: usize| {
        let (output, inside) = (i / per_output, i % per_output / taps);
        output / (outputs / groups as usize).max(1) * channels + inside
    };
    let old: Vec<f32> = (0..weights.len()).map(|i| weights.get_f64(i).unwrap_or(0.0) as f32).collect();
    let bias = plain_bias(graph, index, &graph.nodes[conv], &primitive)?;
    let (scaled, bias) = match kind {
        Binary::Mul => (old.iter().enumerate().map(|(i, w)| w * values[channel(i)]).collect(), bias),
        Binary::Div => (old.iter().enumerate().map(|(i, w)| w / values[channel(i)]).collect(), bias),
        Binary::Add | Binary::Sub => {
            let padded = window.pad_begin.iter().chain(&window.pad_end).any(|&p| p > 0);
            if padded {
                return None;
            }
            let sign = if kind == Binary::Sub { -1.0 } else { 1.0 };
            let mut sums = vec![0.0f64; outputs];
            for (i, &w) in old.iter().enumerate() {
                sums[i / per_output] += f64::from(w) * f64::from(sign * values[channel(i)]);
            }
            let before = |o: usize| bias.as_ref().map_or(0.0, |b| f64::from(b[o]));
            let bias = sums.iter().enumerate().map(|(o, s)| (before(o) + s) as f32).collect();
            (old, Some(bias))
        }
        _ => return None,
    };
    Some(Fold {
        function,
        input,
        weights: scaled,
        shape,
        bias,
    })
}

fn apply(graph: &mut Graph, conv: usize, fold: Fold) {
    let name = graph.nodes[conv].name.clone();
    let dtype = graph.value(graph.nodes[conv].inputs[1]).dtype;
    let mut constant = |what: &str, shape: Option<Shape>, elements| {
        let tensor = shape.and_then(|shape| floats(dtype, shape, elements))?;
        Some(graph.add_constant(format!("{name}.{what}"), Arc::new(tensor)))
    };
    let mut inputs = vec![fold.input];
    inputs.extend(constant("weights", Some(fold.shape), fold.weights));
    if let Some(bias) = fold.bias {
        inputs.extend(constant("bias", Shape::new(&[bias.len() as u32]), bias));
    }
    graph.nodes[conv].inputs = inputs;
    graph.nodes.remove(fold.function);
}
