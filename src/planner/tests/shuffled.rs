//! Channel shuffles between convolutions: their halves are copied once, to where they are read.

use super::nets::{Draw, Net};
use super::oracle::{compile, evaluate, run, same_bits};
use crate::plan::format::{Operand, Plan};
use crate::planner::CompileOptions;
use crate::planner::graph::{Graph, ValueId, ViewOp};
use crate::planner::passes::PassSet;
use crate::primitive::Primitive;
use crate::tensor::{DType, Tensor};

const PIXELS: [u32; 2] = [5, 6];

fn picture(channels: u32) -> [u32; 4] {
    [2, channels, PIXELS[0], PIXELS[1]]
}

/// The channels of `from` in `groups`, those of all groups side by side.
fn shuffle(net: &mut Net, from: ValueId, channels: u32, groups: u32) -> ValueId {
    let [n, _, h, w] = picture(channels);
    let apart = net.view(ViewOp::Reshape, from, &[n, groups, channels / groups, h, w]);
    let perm = vec![0, 2, 1, 3, 4];
    let turned = net.view(ViewOp::Transpose { perm }, apart, &[n, channels / groups, groups, h, w]);
    net.view(ViewOp::Reshape, turned, &picture(channels))
}

fn channels(net: &mut Net, from: ValueId, first: i64, count: u32) -> ValueId {
    let start = vec![0, first, 0, 0];
    net.view(ViewOp::Slice { start, step: vec![1; 4] }, from, &picture(count))
}

/// Units of which one half of the channels passes by, as in ShuffleNet V2; halves of 12 channels, or of so many of them first.
fn network(units: usize, first: u32) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(5));
    let x = net.input(&picture(6));
    let mut halves = [0; 2].map(|_| net.conv(&mut draw, x, 12, 1, 1, 1, true));
    for _ in 0..units {
        let all = net.concat(1, &halves);
        let shuffled = shuffle(&mut net, all, 24, 2);
        let passing = channels(&mut net, shuffled, 0, first);
        let rest = channels(&mut net, shuffled, first.into(), 24 - first);
        halves = [passing, net.conv(&mut draw, rest, 24 - first, 3, 1, 1, true)];
    }
    let all = net.concat(1, &halves);
    let y = net.conv(&mut draw, all, 4, 1, 1, 1, true);
    net.output(y);
    (net.graph, vec![draw.tensor(&picture(6))])
}

fn plan(graph: &Graph, passes: PassSet, dtype: DType) -> crate::planner::Compiled {
    let options = CompileOptions {
        passes,
        dtype,
        ..CompileOptions::default()
    };
    compile(std::slice::from_ref(graph), &options)
}

fn copies(plan: &Plan) -> usize {
    plan.operators.iter().filter(|o| o.calls[0].primitive == Primitive::Copy).count()
}

#[test]
fn halves_of_a_shuffle_are_copied_once_to_where_they_are_read() {
    let (graph, inputs) = network(3, 12);
    let [whole, parts] = [PassSet::ALL.without(PassSet::SHUFFLED), PassSet::ALL].map(|set| plan(&graph, set, DType::F32));
    // The input and the result, and of a unit both halves.
    assert_eq!(copies(&parts.plan), 2 + 3 * 2);
    assert!(copies(&whole.plan) > copies(&parts.plan));
    let expected = evaluate(&graph, &inputs);
    for compiled in [whole, parts] {
        let found = run(&compiled, std::slice::from_ref(&inputs), 2);
        same_bits(&compiled.plan, &found[0], &expected, "shuffled");
    }
}

#[test]
fn convolutions_of_halves_read_pixels_that_begin_on_sixteen_bytes() {
    let (graph, _) = network(3, 12);
    let compiled = plan(&graph, PassSet::ALL, DType::F16);
    let read = compiled
        .plan
        .operators
        .iter()
        .filter_map(|o| match (&o.calls[0].primitive, o.calls[0].inputs.first()) {
            (Primitive::Conv { window, .. }, Some(Operand::View(x))) if window.kernel[0] == 3 => Some(x.layout.stride(3)),
            _ => None,
        });
    assert_eq!(read.collect::<Vec<_>>(), [16; 3]);
}

#[test]
fn slices_that_cut_a_pair_read_the_whole() {
    let (graph, inputs) = network(2, 11);
    let [whole, parts] = [PassSet::ALL.without(PassSet::SHUFFLED), PassSet::ALL].map(|set| plan(&graph, set, DType::F32));
    assert_eq!(copies(&whole.plan), copies(&parts.plan));
    let found = run(&parts, std::slice::from_ref(&inputs), 2);
    same_bits(&parts.plan, &found[0], &evaluate(&graph, &inputs), "cut");
}
