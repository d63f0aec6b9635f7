//! Launches of the hand-built networks' operators: one kernel of the stub for all of them.

use bytemuck::{Pod, Zeroable};
use platoon::backend::cuda::bind::{Addresses, BindError, Kernel, Launch, Packer};
use platoon::plan::format::{Operand, Operator, View};
use platoon::primitive::{Binary, Primitive, Region, Unary};
use platoon::tensor::DType;

/// Mirrors `rows_params` of `stub/kernels.c`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RowsParams {
    kind: u32,
    from: u32,
    to: u32,
    width: u32,
    height: u32,
    padding: u32,
    x: u64,
    y: u64,
    out: u64,
    a: f32,
    b: f32,
}

struct Rows {
    kind: u32,
    inputs: [View; 2],
    output: View,
    a: f32,
    b: f32,
}

/// The operator as one kernel.
pub fn compile(_: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let view = |call: usize, input: usize| match operator.calls[call].inputs[input] {
        Operand::View(view) => view,
        Operand::Inner(_) => panic!("a hand-built operator reads another one's value first"),
    };
    let x = view(0, 0);
    let (kind, y, a, b) = match operator.calls[0].primitive {
        Primitive::Copy => (u32::from(x.dtype != DType::U8), x, 0.0, 0.0),
        Primitive::Pool { .. } => (2, x, 0.0, 0.0),
        Primitive::Unary(Unary::LeakyRelu(alpha)) => (3, x, alpha.0, 300.0),
        Primitive::Binary(Binary::Sub) => (4, view(0, 1), 0.0, 0.0),
        Primitive::Unary(Unary::HardSigmoid(alpha, beta)) => (5, view(1, 1), alpha.0, beta.0),
        other => panic!("hand-built plans have no {other:?}"),
    };
    Ok(Box::new(Rows {
        kind,
        inputs: [x, y],
        output: operator.outputs[0],
        a,
        b,
    }))
}

impl Kernel for Rows {
    fn workspace(&self) -> u64 {
        100
    }

    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        assert!(at.workspace.bytes >= 100 && at.workspace.address.is_multiple_of(256));
        let params = RowsParams {
            kind: self.kind,
            from: region.rows.start,
            to: region.rows.end,
            width: self.output.layout.shape.dim(3),
            height: self.output.layout.shape.dim(2),
            padding: 0,
            x: at.view(&self.inputs[0])?,
            y: at.view(&self.inputs[1])?,
            out: at.view(&self.output)?,
            a: self.a,
            b: self.b,
        };
        let mut launch = Launch::new("rows", "rows", region.rows.len() as u32, width, 64, &params);
        // Every way to launch: with much shared memory, and as clusters.
        if self.kind == 2 {
            launch.shared = 100 << 10;
        }
        if self.kind == 4 {
            launch.cluster = 2;
            launch.blocks = launch.blocks.next_multiple_of(2);
        }
        Ok(vec![launch])
    }
}
