//! The layouts that kernels walk, as conditions on an operator's views.

use super::Misfit;
use crate::plan::format::{Call, Operand, Operator, Plan, Space, Tactic, View};
use crate::primitive::{Binary, Primitive, ReduceKind, Window};
use crate::tensor::DType;

/// An operator under the eyes of the menu.
pub struct Forms<'a> {
    plan: &'a Plan,
    operator: &'a Operator,
}

/// `Ok` where the condition holds.
pub fn need(ok: bool, misfit: Misfit) -> Result<(), Misfit> {
    if ok { Ok(()) } else { Err(misfit) }
}

/// Tactics by ascending cost; those of the same cost stay as they are.
pub fn cheapest_first<C: Ord>(costs: impl IntoIterator<Item = (C, Tactic)>) -> Vec<Tactic> {
    let mut all: Vec<(C, Tactic)> = costs.into_iter().collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all.into_iter().map(|(_, tactic)| tactic).collect()
}

/// True for what an operator may begin with that functions follow.
pub fn takes_functions(primitive: &Primitive) -> bool {
    matches!(
        primitive,
        Primitive::Conv { .. }
            | Primitive::ConvTranspose { .. }
            | Primitive::MatMul
            | Primitive::Normalise { .. }
            | Primitive::RmsNormalise { .. }
            | Primitive::GroupNormalise { .. }
            | Primitive::Gather { .. }
            | Primitive::Reduce {
                kind: ReduceKind::Norm,
                ..
            }
    )
}

/// The calls of an operator without a last one that copies halves, as they are or widened to f32: kernels do that as they
/// store.
pub fn before_copy(operator: &Operator) -> &[Call] {
    let calls = operator.calls.as_slice();
    match calls {
        [.., made, copy] => {
            let alone = copy.primitive == Primitive::Copy && copy.inputs == [Operand::Inner(calls.len() as u8 - 2)];
            let keeps = made.dtype == DType::F16 && copy.dtype.is_float() && made.shape == copy.shape;
            &calls[..calls.len() - usize::from(alone && keeps)]
        }
        _ => calls,
    }
}

/// True if everything that an operator computes is f16; a copy at its end may widen that.
pub fn computes_halves(operator: &Operator) -> bool {
    let stored = operator
        .outputs
        .iter()
        .all(|v| Some(v.dtype) == operator.calls.last().map(|c| c.dtype));
    stored && before_copy(operator).iter().all(|c| c.dtype == DType::F16)
}

/// Stride of an axis that carries positions; 0 for an extent of 1.
fn stride(view: &View, axis: usize) -> i64 {
    if view.layout.shape.dim(axis) <= 1 {
        0
    } else {
        view.layout.stride(axis)
    }
}

fn forward(view: &View) -> bool {
    (0..view.layout.shape.rank()).all(|a| stride(view, a) >= 0)
}

/// The tensors in memory of a call.
fn views(call: &Call) -> impl Iterator<Item = &View> {
    call.inputs.iter().filter_map(|operand| match operand {
        Operand::View(view) => Some(view),
        Operand::Inner(_) => None,
    })
}

impl<'a> Forms<'a> {
    pub fn new(plan: &'a Plan, operator: &'a Operator) -> Forms<'a> {
        Forms { plan, operator }
    }

    fn first(&self) -> &'a Call {
        &self.operator.calls[0]
    }

    fn input(&self, index: usize) -> Result<&'a View, Misfit> {
        match self.first().inputs.get(index) {
            Some(Operand::View(view)) => Ok(view),
            _ => Err(Misfit::Primitive),
        }
    }

    fn output(&self) -> Result<&'a View, Misfit> {
        self.operator.outputs.first().ok_or(Misfit::Primitive)
    }

    /// Channels of the first input.
    pub fn channels(&self) -> u32 {
        self.input(0).map_or(0, |x| x.layout.shape.dim(1))
    }

    /// Everything is f32, nothing is empty, and no view walks backwards.
    fn plain(&self) -> Result<(), Misfit> {
        let all = || self.operator.calls.iter().flat_map(views).chain(&self.operator.outputs);
        let f32_only = self.operator.calls.iter().all(|c| c.dtype == DType::F32) && all().all(|v| v.dtype == DType::F32);
        need(f32_only, Misfit::Type)?;
        need(all().all(|v| v.layout.shape.elements() > 0 && forward(v)), Misfit::Layout)
    }

    /// The tensor that each later call joins to the value before it; `None` for functions of that value alone.
    fn tail(&self) -> Result<Vec<Option<&'a View>>, Misfit> {
        let later = self.operator.calls.iter().enumerate().skip(1);
        later
            .map(|(index, call)| {
                let previous = Operand::Inner((index - 1) as u8);
                match (&call.primitive, call.inputs.as_slice()) {
                    (Primitive::Unary(_), [x]) if *x == previous => Ok(None),
                    (Primitive::Binary(kind), [a, b]) if *kind != Binary::Pow => match (a, b) {
                        (a, Operand::View(other)) if *a == previous => Ok(Some(other)),
                        (Operand::View(other), b) if *b == previous => Ok(Some(other)),
                        _ => Err(Misfit::Tail),
                    },
                    _ => Err(Misfit::Tail),
                }
            })
            .collect()
    }

    /// The operator is its first primitive alone.
    pub fn alone(&self) -> Result<(), Misfit> {
        need(self.operator.calls.len() == 1, Misfit::Tail)
    }

    /// Inputs behind the first (weights, bias) lie in the weight files.
    pub fn constants_behind_first(&self) -> Result<(), Misfit> {
        let constant = |v: &View| {
            self.plan
                .buffers
                .get(v.buffer.index())
                .is_some_and(|b| matches!(b.space, Space::Weights(_)))
        };
        let inputs = self.first().inputs.iter().skip(1);
        let all = inputs.clone().all(|o| matches!(o, Operand::View(v) if constant(v)));
        need(all, Misfit::Weights)
    }

    /// `[N, C, H, W]` tensors with contiguous channels; those of the tail may repeat one value for all channels.
    pub fn pixels(&self) -> Result<(), Misfit> {
        self.plain()?;
        let rank = |v: &View| v.layout.shape.rank() == 4;
        let dense = |v: &View| rank(v) && (v.layout.shape.dim(1) <= 1 || stride(v, 1) == 1);
        need(dense(self.input(0)?) && dense(self.output()?), Misfit::Layout)?;
        let tail = self.tail()?;
        need(tail.into_iter().flatten().all(|v| rank(v) && stride(v, 1) <= 1), Misfit::Layout)
    }

    /// No pooling window reaches past the declared padding.
    pub fn windows_inside_padding(&self, window: &Window) -> bool {
        let (Ok(x), Ok(y)) = (self.input(0), self.output()) else {
            return false;
        };
        (0..2).all(|a| {
            let last = u64::from(y.layout.shape.dim(a + 2).saturating_sub(1)) * u64::from(window.stride[a]);
            let end = window.reach(a).map(|r| last + u64::from(r));
            let padded = u64::from(x.layout.shape.dim(a + 2)) + u64::from(window.pad_begin[a]) + u64::from(window.pad_end[a]);
            end.is_some_and(|e| e <= padded)
        })
    }

    /// A resize leaves batch and channels alone and changes both rows and columns.
    pub fn resizes_pixels_only(&self) -> bool {
        let (Primitive::Resize(r), Ok(x), Ok(y)) = (&self.first().primitive, self.input(0), self.output()) else {
            return false;
        };
        let same = |a: usize| r.scales[a].0 == 1.0 && x.layout.shape.dim(a) == y.layout.shape.dim(a);
        x.layout.shape.rank() == 4 && same(0) && same(1) && !same(2) && !same(3)
    }

    /// Elements along `axis` are contiguous in input and output.
    pub fn contiguous_along(&self, axis: usize) -> Result<(), Misfit> {
        self.plain()?;
        let contiguous = |v: &View| v.layout.shape.dim(axis) <= 1 || stride(v, axis) == 1;
        need(contiguous(self.input(0)?) && contiguous(self.output()?), Misfit::Layout)
    }

    /// Matrices whose product can be written along rows or along columns; a bias, if any, is constant and one row.
    pub fn matrices(&self) -> Result<(), Misfit> {
        self.plain()?;
        let (out, r) = (self.output()?, self.output()?.layout.shape.rank());
        self.input(0)?;
        self.input(1)?;
        let transposed = stride(out, r - 1) > 1 && stride(out, r - 2) <= 1;
        let column = |v: &View| stride(v, if transposed { r - 2 } else { r - 1 });
        let columns = out.layout.shape.dim(if transposed { r - 2 } else { r - 1 });
        need(column(out) == 1 || columns <= 1, Misfit::Layout)?;
        if self.first().inputs.len() > 2 {
            let bias = self.input(2)?;
            let constant = self
                .plan
                .buffers
                .get(bias.buffer.index())
                .is_some_and(|b| matches!(b.space, Space::Weights(_)));
            need(constant && !transposed, Misfit::Weights)?;
            need((0..r - 1).all(|a| stride(bias, a) == 0), Misfit::Layout)?;
        }
        need(self.tail()?.into_iter().flatten().all(|v| column(v) <= 1), Misfit::Layout)
    }

    /// Pre-activations, outputs and h of a recurrent layer with contiguous gates and units, and recurrent weights that lie in
    /// the weight files.
    pub fn sequences(&self) -> Result<(), Misfit> {
        self.plain()?;
        let weights = self.input(1)?.buffer.index();
        let constant = self.plan.buffers.get(weights).is_some_and(|b| matches!(b.space, Space::Weights(_)));
        need(constant, Misfit::Weights)?;
        let contiguous = |v: &View, axis: usize| v.layout.shape.dim(axis) <= 1 || stride(v, axis) == 1;
        let h = match self.first().inputs.len() {
            2 => true,
            _ => contiguous(self.input(2)?, 1),
        };
        need(h && contiguous(self.input(0)?, 2) && contiguous(self.output()?, 2), Misfit::Layout)
    }

    /// Elementwise chains over runs: along the output's innermost axis, the output and the running value are contiguous,
    /// the other tensors contiguous or one value.
    pub fn runs(&self) -> Result<(), Misfit> {
        self.plain()?;
        let out = self.output()?;
        let shape = out.layout.shape;
        let innermost = (0..shape.rank())
            .filter(|&a| shape.dim(a) > 1)
            .max_by_key(|&a| (std::cmp::Reverse(stride(out, a)), a));
        let repeats = |v: &View| (0..shape.rank()).any(|a| shape.dim(a) > 1 && stride(v, a) == 0);
        let (mut source, mut other) = (self.input(0)?, self.input(1).ok());
        if let Some(b) = other
            && repeats(source)
            && !repeats(b)
        {
            (source, other) = (b, Some(source));
        }
        let tail = self.tail()?;
        let Some(axis) = innermost else { return Ok(()) };
        need(stride(source, axis) == 1 && stride(out, axis) == 1, Misfit::Layout)?;
        need(
            other.into_iter().chain(tail.into_iter().flatten()).all(|v| stride(v, axis) <= 1),
            Misfit::Layout,
        )
    }
}
