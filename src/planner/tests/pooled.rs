//! Convolutions and the maxima of their results: where they become one operator, and that its bits are those of two.

use super::nets::{Draw, Net};
use super::oracle::{compile, run, same_bits};
use crate::plan::format::Plan;
use crate::plan::tactic::Target;
use crate::planner::CompileOptions;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::planner::passes::PassSet;
use crate::primitive::{PoolKind, Primitive, Unary, Window};
use crate::tensor::{DType, Tensor};

/// The maximum of every 2 by 2 of `x`, of whole windows alone.
fn pool(net: &mut Net, x: ValueId) -> ValueId {
    let window = Window {
        stride: [2, 2, 1],
        ..Window::new(&[2, 2])
    };
    let kind = PoolKind::Max { column_major: false };
    let d = net.dims(x);
    net.node(
        Op::Primitive(Primitive::Pool { kind, window }),
        &[x],
        &[d[0], d[1], d[2] / 2, d[3] / 2],
    )
}

/// Convolution, relu, maxima, convolution; `twice` reads the values between them, too.
fn network(twice: bool) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(7));
    let x = net.input(&[2, 16, 13, 10]);
    let y = net.conv(&mut draw, x, 64, 3, 1, 1, true);
    let y = net.unary(Unary::Relu, y);
    let pooled = pool(&mut net, y);
    let z = net.conv(&mut draw, pooled, 8, 1, 1, 1, true);
    net.output(z);
    if twice {
        net.output(y);
    }
    (net.graph, vec![draw.tensor(&[2, 16, 13, 10])])
}

fn joined(plan: &Plan) -> usize {
    let pools = |p: &Primitive| matches!(p, Primitive::Pool { .. });
    let ends = plan
        .operators
        .iter()
        .filter(|o| o.calls.len() == 3 && o.calls.last().is_some_and(|c| pools(&c.primitive)));
    ends.count()
}

#[test]
fn maxima_join_the_convolution_that_alone_makes_them() {
    let of = |dtype, passes| CompileOptions {
        dtype,
        passes,
        ..CompileOptions::default()
    };
    let (graph, inputs) = network(false);
    let plan = |options: &CompileOptions| compile(std::slice::from_ref(&graph), options);
    let (together, apart) = (
        plan(&of(DType::F16, PassSet::ALL)),
        plan(&of(DType::F16, PassSet::ALL.without(PassSet::POOLED))),
    );
    assert_eq!((joined(&together.plan), joined(&apart.plan)), (1, 0));
    let results = |compiled| run(compiled, std::slice::from_ref(&inputs), 2);
    same_bits(&together.plan, &results(&together)[0], &results(&apart)[0], "joined");
    // Not of single precision, and not where others read what lies between.
    assert_eq!(joined(&plan(&of(DType::F32, PassSet::ALL)).plan), 0);
    let (graph, _) = network(true);
    assert_eq!(joined(&compile(&[graph], &of(DType::F16, PassSet::ALL)).plan), 0);
}

#[test]
fn only_targets_with_a_kernel_for_both_join_them() {
    for target in Target::ALL {
        let joins = PassSet::ALL.on(target).has(PassSet::POOLED);
        assert_eq!(joins, target == Target::Cuda { wgmma: true }, "{target:?}");
    }
}
