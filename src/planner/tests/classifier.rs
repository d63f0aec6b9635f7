//! Classifiers: pictures are flattened as they are stored, and the last product stores its result as f32.

use super::nets::{Draw, Net};
use super::oracle::{close, compile, evaluate, run, same_bits};
use crate::plan::format::Plan;
use crate::planner::CompileOptions;
use crate::planner::graph::{Graph, Op, ViewOp};
use crate::planner::passes::PassSet;
use crate::primitive::{Primitive, Scalar, Unary};
use crate::tensor::{DType, Tensor};

/// A convolution of pictures, flattened, times a matrix that is stored turned, and a function of that; `shared` reads the
/// flattened picture a second time.
fn network(shared: bool) -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(3));
    let x = net.input(&[2, 3, 5, 4]);
    let y = net.conv(&mut draw, x, 8, 3, 1, 1, true);
    let dims = net.dims(y);
    let k = dims[1..].iter().product();
    let flat = net.view(ViewOp::Reshape, y, &[2, k]);
    let weights = net.constant(draw.tensor(&[16, k]));
    let weights = net.transpose(weights, &[1, 0]);
    let z = net.node(Op::Primitive(Primitive::MatMul), &[flat, weights], &[2, 16]);
    let z = net.unary(Unary::LeakyRelu(Scalar(0.1)), z);
    net.output(z);
    if shared {
        net.output(flat);
    }
    (net.graph, vec![draw.tensor(&[2, 3, 5, 4])])
}

fn of(dtype: DType, passes: PassSet) -> CompileOptions {
    CompileOptions {
        dtype,
        passes,
        ..CompileOptions::default()
    }
}

/// Operators that do nothing but copy.
pub fn copies(plan: &Plan) -> usize {
    let copies = |o: &&crate::plan::format::Operator| o.calls.iter().all(|c| c.primitive == Primitive::Copy);
    plan.operators.iter().filter(copies).count()
}

#[test]
fn flattened_pictures_are_read_as_they_are_stored() {
    for shared in [false, true] {
        let (graph, inputs) = network(shared);
        let expected = evaluate(&graph, &inputs);
        let counts = [PassSet::ALL, PassSet::ALL.without(PassSet::FLATTENED)].map(|passes| {
            let compiled = compile(std::slice::from_ref(&graph), &of(DType::F32, passes));
            let found = run(&compiled, std::slice::from_ref(&inputs), 2);
            close(&found[0], &expected, 1e-5, &format!("{passes:?}"));
            copies(&compiled.plan)
        });
        assert_eq!(counts[0] + usize::from(!shared), counts[1], "shared {shared}: {counts:?}");
    }
}

#[test]
fn the_last_product_widens_its_result() {
    let (graph, inputs) = network(false);
    let plan = |passes| compile(std::slice::from_ref(&graph), &of(DType::F16, passes));
    let (joined, apart) = (plan(PassSet::ALL), plan(PassSet::ALL.without(PassSet::GROUP)));
    let last = joined.plan.operators.last().unwrap();
    let dtypes: Vec<DType> = last.calls.iter().map(|c| c.dtype).collect();
    assert_eq!(dtypes, [DType::F16, DType::F16, DType::F32]);
    let results = |compiled| run(compiled, std::slice::from_ref(&inputs), 2);
    same_bits(&joined.plan, &results(&joined)[0], &results(&apart)[0], "widened");
}
