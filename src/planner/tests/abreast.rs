//! Convolutions of one picture that become one, and look-alikes that do not.

use super::classifier::copies;
use super::nets::{Draw, Net};
use super::oracle::{compile_with, evaluate, run, same_bits};
use crate::plan::format::Operator;
use crate::planner::graph::{ValueId, ViewOp};
use crate::planner::passes::PassSet;
use crate::primitive::{Binary, Primitive, Scalar, Unary};

/// Operators of the compiled network that convolve, and those that only copy, as its picture and its result are; its results are the
/// oracle's, bit for bit.
fn compiled(passes: PassSet, block: &dyn Fn(&mut Net, &mut Draw, ValueId) -> Vec<ValueId>) -> (usize, usize) {
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let x = net.input(&[2, 8, 9, 7]);
    block(&mut net, &mut draw, x).into_iter().for_each(|y| net.output(y));
    let inputs = vec![draw.tensor(&[2, 8, 9, 7])];
    let expected = evaluate(&net.graph, &inputs);
    let compiled = compile_with(&net.graph, passes);
    let found = run(&compiled, &[inputs], 2);
    same_bits(&compiled.plan, &found[0], &expected, "abreast");
    let convolves = |o: &&Operator| o.calls.iter().any(|c| matches!(c.primitive, Primitive::Conv { .. }));
    let convolutions = compiled.plan.operators.iter().filter(convolves).count();
    (convolutions, copies(&compiled.plan))
}

/// The same without the pass and with it, and the pass beside few others; no other pass rounds otherwise.
fn before_and_now(block: impl Fn(&mut Net, &mut Draw, ValueId) -> Vec<ValueId>) -> [(usize, usize); 2] {
    let rest = PassSet::ALL.without(super::ROUNDING).without(PassSet::ABREAST);
    compiled(PassSet::ABREAST.with(PassSet::LAYOUT), &block);
    [compiled(rest, &block), compiled(rest.with(PassSet::ABREAST), &block)]
}

fn rectified(net: &mut Net, draw: &mut Draw, x: ValueId, channels: u32, kernel: u32) -> ValueId {
    let x = net.conv(draw, x, channels, kernel, 1, 1, true);
    net.unary(Unary::Relu, x)
}

#[test]
fn a_cross_stage_block_begins_with_one_convolution_and_copies_nothing() {
    for first in [false, true] {
        let found = before_and_now(|net, draw, x| {
            let deep = rectified(net, draw, x, 16, 1);
            let short = rectified(net, draw, x, 8, 1);
            let inner = rectified(net, draw, deep, 16, 3);
            let deep = net.binary(Binary::Add, inner, deep);
            let both = if first { [short, deep] } else { [deep, short] };
            let joined = net.concat(1, &both);
            vec![rectified(net, draw, joined, 8, 1)]
        });
        assert_eq!(found, [(4, 2), (3, 2)], "the short branch first: {first}");
    }
}

#[test]
fn parallel_windows_begin_with_one_convolution_of_one_tap() {
    let found = before_and_now(|net, draw, x| {
        let one = rectified(net, draw, x, 8, 1);
        let three = rectified(net, draw, x, 16, 1);
        let three = rectified(net, draw, three, 8, 3);
        let five = rectified(net, draw, x, 8, 1);
        let five = rectified(net, draw, five, 8, 5);
        let joined = net.concat(1, &[one, three, five]);
        vec![rectified(net, draw, joined, 8, 1)]
    });
    assert_eq!(found, [(6, 2), (4, 2)]);
}

#[test]
fn branches_that_a_concatenation_has_all_of_are_born_in_it() {
    let found = before_and_now(|net, draw, x| {
        let before = rectified(net, draw, x, 8, 5);
        let one = rectified(net, draw, x, 8, 3);
        let two = rectified(net, draw, x, 16, 3);
        let joined = net.concat(1, &[before, two, one, before]);
        vec![net.unary(Unary::Sqrt, joined)]
    });
    assert_eq!(found.map(|(convolutions, _)| convolutions), [3, 2]);
}

#[test]
fn what_others_read_or_slides_otherwise_stays() {
    let read_otherwise = before_and_now(|net, draw, x| {
        let one = rectified(net, draw, x, 8, 1);
        let two = rectified(net, draw, x, 8, 1);
        vec![net.binary(Binary::Mul, one, two)]
    });
    assert_eq!(read_otherwise, [(2, 2); 2], "by a function");
    let results = before_and_now(|net, draw, x| vec![rectified(net, draw, x, 8, 1), rectified(net, draw, x, 8, 1)]);
    assert_eq!(results[0], results[1], "results");
    let unlike = before_and_now(|net, draw, x| {
        let one = rectified(net, draw, x, 8, 1);
        let three = rectified(net, draw, x, 8, 3);
        let plain = net.conv(draw, x, 8, 1, 1, 1, false);
        let odd = rectified(net, draw, x, 7, 1);
        let parts = [one, three, plain, odd].map(|x| rectified(net, draw, x, 8, 1));
        vec![net.concat(1, &parts)]
    });
    assert_eq!(unlike[0].0, unlike[1].0, "other windows, functions and channels");
    let in_the_middle = before_and_now(|net, draw, x| {
        let deep = rectified(net, draw, x, 8, 1);
        let short = rectified(net, draw, x, 8, 1);
        let deep = [0, 1].map(|_| rectified(net, draw, deep, 8, 3));
        let joined = net.concat(1, &[deep[0], short, deep[1]]);
        vec![rectified(net, draw, joined, 8, 1)]
    });
    assert_eq!(in_the_middle[0].1, in_the_middle[1].1, "no more copies");
}

/// Numbers of every box of two maps, collected.
fn head(net: &mut Net, draw: &mut Draw, maps: [ValueId; 2], boxes: [u32; 2], columns: u32) -> ValueId {
    let parts = [0, 1].map(|i| {
        let bias = columns > 3;
        let x = net.conv(draw, maps[i], boxes[i] * columns, 3, 1, 1, bias);
        let [n, channels, rows, across] = net.dims(x)[..] else { panic!() };
        let last = ViewOp::Transpose { perm: vec![0, 2, 3, 1] };
        let x = net.view(last, x, &[n, rows, across, channels]);
        net.view(ViewOp::Reshape, x, &[n, rows * across * boxes[i], columns])
    });
    net.concat(1, &parts)
}

#[test]
fn a_detectors_heads_are_one_convolution_a_map() {
    for columns in [[3, 13], [2, 5]] {
        let found = before_and_now(|net, draw, x| {
            let maps = [x, net.conv(draw, x, 8, 3, 2, 1, true)];
            let kinds = columns.map(|columns| head(net, draw, maps, [2, 3], columns));
            vec![net.unary(Unary::Sigmoid, kinds[0]), net.unary(Unary::Relu, kinds[1])]
        });
        assert_eq!(found.map(|(convolutions, _)| convolutions), [5, 3], "{columns:?}");
    }
}

#[test]
fn heads_of_other_maps_or_boxes_stay() {
    let other_maps = before_and_now(|net, draw, x| {
        let maps = [x, net.conv(draw, x, 8, 3, 1, 1, true)];
        vec![head(net, draw, maps, [2, 3], 4), head(net, draw, [maps[1], maps[0]], [2, 3], 5)]
    });
    assert_eq!(other_maps.map(|(convolutions, _)| convolutions), [5; 2]);
    let other_boxes = before_and_now(|net, draw, x| vec![head(net, draw, [x, x], [2, 3], 4), head(net, draw, [x, x], [2, 4], 4)]);
    assert_eq!(other_boxes.map(|(convolutions, _)| convolutions), [4; 2]);
}

/// Blocks of random branches, which convolutions, functions, concatenations and results read in random ways.
#[test]
fn random_branches_keep_every_bit() {
    let mut fewer = 0;
    for seed in 0..80 {
        let found = before_and_now(|net, draw, x| {
            let mut draw = Draw::new(seed + 1000 * (1 + draw.below(2)));
            let mut live = vec![x];
            for _ in 0..2 {
                let x = live[draw.below(live.len() as u64) as usize];
                let [kernel, act] = [1 + 2 * draw.below(2) as u32, draw.below(2) as u32];
                let branches: Vec<ValueId> = (0..2 + draw.below(3))
                    .map(|_| {
                        let (channels, bias) = (8 * (1 + draw.below(3) as u32), draw.below(2) == 0);
                        let y = net.conv(&mut draw, x, channels, kernel, 1, 1, bias);
                        if act == 0 {
                            y
                        } else {
                            net.unary(Unary::LeakyRelu(Scalar(0.25)), y)
                        }
                    })
                    .collect();
                let mut parts = Vec::new();
                for &branch in &branches {
                    match draw.below(6) {
                        0 => parts.push(branch),
                        1 => parts.extend([branch, branch]),
                        2 => {
                            let y = net.conv(&mut draw, branch, net.dims(branch)[1], 3, 1, 1, true);
                            parts.extend([net.binary(Binary::Add, branch, y), branch]);
                        }
                        3 => live.push(branch),
                        _ => parts.push(net.conv(&mut draw, branch, 8, 3, 1, 1, false)),
                    }
                }
                if !parts.is_empty() {
                    let joined = net.concat(1, &parts);
                    live.push(net.conv(&mut draw, joined, 8, 1, 1, 1, true));
                    if draw.below(4) == 0 {
                        live.push(joined);
                    }
                }
            }
            let last = live.len() - 1;
            vec![live[last], live[draw.below(live.len() as u64) as usize]]
        });
        assert!(found[1].0 <= found[0].0 && found[1].1 <= found[0].1, "seed {seed}: {found:?}");
        fewer += usize::from(found[1].0 < found[0].0);
    }
    assert!(fewer > 20, "{fewer} of 80 have fewer convolutions");
}
