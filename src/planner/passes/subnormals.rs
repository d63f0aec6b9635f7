//! Weights, slopes and shifts too small for a normal float become zeros. Training leaves them where it decays what no picture needs: a tenth of TwinLiteNet's weights
//! lie below 1.2e-38. Processors take a hundred clocks for a product with one, and what they change is far below any rounding.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Op};
use crate::primitive::{Binary, Primitive};
use crate::tensor::{Data, Tensor};
use std::sync::Arc;

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    let mut flushed = vec![false; graph.values.len()];
    let mut exact = vec![false; graph.values.len()];
    for named in &graph.outputs {
        exact[index.behind_views(graph, named.value).0.index()] = true;
    }
    for node in &graph.nodes {
        let weighs = match &node.op {
            Op::View(_) => continue,
            Op::Concat { .. } => false,
            Op::Primitive(primitive) => matches!(
                primitive,
                Primitive::Conv { .. }
                    | Primitive::ConvTranspose { .. }
                    | Primitive::MatMul
                    | Primitive::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::PRelu)
            ),
        };
        for &value in &node.inputs {
            let base = index.behind_views(graph, value).0.index();
            let marks = if weighs { &mut flushed } else { &mut exact };
            marks[base] = true;
        }
    }
    for (place, value) in graph.values.iter_mut().enumerate() {
        if flushed[place]
            && !exact[place]
            && let Some(without) = value.data.as_deref().and_then(without)
        {
            value.data = Some(Arc::new(without));
        }
    }
}

/// The tensor with zeros in place of subnormal floats; `None` if it has none.
fn without(tensor: &Tensor) -> Option<Tensor> {
    let elements = tensor.as_f32().filter(|elements| elements.iter().any(|x| x.is_subnormal()))?;
    let flush = |&x: &f32| if x.is_subnormal() { 0.0 } else { x };
    Tensor::new(tensor.shape(), Data::F32(elements.iter().map(flush).collect()))
}
