//! Squeeze and excitation (Hu et al. 2018) as one operator of halves: the mean of all pixels, and two small fully connected
//! layers of it, each with a function behind it. What it multiplies is another operator.

use super::Misfit;
use super::forms::need;
use crate::plan::format::{ArithmeticClass, Call, Family, Kernel, Operand, Operator, Plan, Rounding, Space, Tactic, View};
use crate::primitive::{Primitive, ReduceKind, Unary, Window};
use crate::tensor::{DType, Shape};

/// Primitives of the operator: mean, layer, function, layer, function.
pub const CALLS: usize = 5;
/// Ranges of channels, whose products the first layer sums on their own, at the most.
const RANGES: u16 = 16;
/// Channels of a range, by how many channels there are: fewer make more blocks, more make fewer sums to add.
const RANGE: [u32; 4] = [16, 32, 64, MAX_CHANNELS / RANGES as u32];
/// Most channels.
const MAX_CHANNELS: u32 = 2048;
/// Most outputs of the first layer.
const MAX_HIDDEN: u32 = 512;
/// Fewest channels: what a thread sums.
const MIN_CHANNELS: u32 = 8;
/// Most pixels, so that positions behind the last one stay in 32 bits.
const MAX_PIXELS: u64 = 1 << 26;
/// So many pixels and more are many: they are summed in so many shares.
const MANY: (u64, u32) = (1024, 8);

/// Tactics, by their variants: blocks of one sample, and of several with the same weights, where few multiprocessors would else
/// read these again and again.
const TACTICS: u16 = 2;
/// Several samples: of few channels, of which more blocks are needed, and of more.
const SEVERAL: [u32; 2] = [2, 4];

/// The class of the operator: the sums of mean and layers have one order of their own, which the shape fixes.
const CLASS: ArithmeticClass = ArithmeticClass {
    family: Family::TensorCore,
    split_k: RANGES,
};

/// Functions and shapes of an operator of this form; the planner groups what has it.
///
/// `shapes` are those of the mean's input, of the mean, and of the first layer's result.
pub fn is_form(primitives: &[&Primitive], shapes: [Shape; 3]) -> bool {
    let [mean, first, inner, second, outer] = primitives else {
        return false;
    };
    let layer = |p: &Primitive| matches!(p, Primitive::Conv { window, groups: 1 } if *window == Window::new(&[1, 1]));
    let function = |p: &Primitive| matches!(p, Primitive::Unary(_));
    let [x, means, hidden] = shapes;
    let averages = matches!(
        mean,
        Primitive::Reduce {
            kind: ReduceKind::Mean,
            axes: 0b1100
        }
    );
    averages
        && layer(first)
        && function(inner)
        && layer(second)
        && function(outer)
        && x.rank() == 4
        && means.rank() == 4
        && hidden.rank() == 4
        && (MIN_CHANNELS..=MAX_CHANNELS).contains(&x.dim(1))
        && (1..=MAX_HIDDEN).contains(&hidden.dim(1))
        && x.elements() > 0
        && u64::from(x.dim(2)) * u64::from(x.dim(3)) < MAX_PIXELS
}

/// Channels of a range, of so many channels in all.
pub fn range(channels: u32) -> u32 {
    let [small, middle, large, largest] = RANGE;
    match channels {
        0..=128 => small,
        129..=512 => middle,
        513..=1024 => large,
        _ => largest,
    }
}

/// An operator of this form.
#[derive(Clone, Copy, Debug)]
pub struct Squeeze<'a> {
    /// The pixels.
    pub x: &'a View,
    /// Each layer's weights, bias and function.
    pub layers: [(&'a View, Option<&'a View>, Unary); 2],
    /// Outputs of the first layer.
    pub hidden: u32,
    /// Shares in which the pixels are summed.
    pub shares: u32,
}

impl<'a> Squeeze<'a> {
    /// Reads the operator; says what it lacks.
    pub fn of(plan: &Plan, operator: &'a Operator) -> Result<Squeeze<'a>, Misfit> {
        let calls: &[Call; CALLS] = operator.calls.as_slice().try_into().map_err(|_| Misfit::Primitive)?;
        let [Operand::View(x)] = calls[0].inputs.as_slice() else {
            return Err(Misfit::Primitive);
        };
        let primitives: [&Primitive; CALLS] = std::array::from_fn(|i| &calls[i].primitive);
        let shapes = [x.layout.shape, calls[0].shape, calls[1].shape];
        need(is_form(&primitives, shapes), Misfit::Primitive)?;
        let halves = x.dtype == DType::F16 && calls.iter().all(|c| c.dtype == DType::F16 && c.rounding == Rounding::Rounded);
        need(halves && operator.outputs.len() == 1, Misfit::Type)?;
        let chained = |i: usize| calls[i].inputs.first() == Some(&Operand::Inner(i as u8 - 1));
        need((1..CALLS).all(chained), Misfit::Tail)?;
        let layer = |i: usize| {
            let constant = |k: usize| match calls[i].inputs.get(k) {
                Some(Operand::View(view)) if is_constant(plan, view) => Ok(view),
                _ => Err(Misfit::Weights),
            };
            let bias = (calls[i].inputs.len() > 2).then(|| constant(2)).transpose()?;
            match calls[i + 1].primitive {
                Primitive::Unary(function) => Ok((constant(1)?, bias, function)),
                _ => Err(Misfit::Primitive),
            }
        };
        let (pixels, (many, shares)) = (u64::from(x.layout.shape.dim(2)) * u64::from(x.layout.shape.dim(3)), MANY);
        Ok(Squeeze {
            x,
            layers: [layer(1)?, layer(3)?],
            hidden: calls[1].shape.dim(1),
            shares: if pixels < many { 1 } else { shares },
        })
    }
}

fn is_constant(plan: &Plan, view: &View) -> bool {
    let buffer = plan.buffers.get(view.buffer.index());
    buffer.is_some_and(|b| matches!(b.space, Space::Weights(_))) && view.dtype.is_float()
}

/// The class of an operator of this form.
pub(super) fn class(plan: &Plan, operator: &Operator) -> Option<ArithmeticClass> {
    Squeeze::of(plan, operator).ok().map(|_| CLASS)
}

/// The tactics, for one sample a block first.
pub fn tactics() -> impl Iterator<Item = Tactic> {
    (0..TACTICS).map(|variant| Tactic {
        variant,
        ..Tactic::of(Kernel::Squeeze)
    })
}

/// Samples of a block under a tactic, of so many channels; `None` for tactics that there are not.
pub fn span(tactic: Tactic, channels: u32) -> Option<u32> {
    let [few, many] = SEVERAL;
    let several = if range(channels) == RANGE[0] { few } else { many };
    let known = tactic.kernel == Kernel::Squeeze && tactic.tile == (0, 0) && tactic.variant < TACTICS;
    known.then_some(if tactic.variant == 0 { 1 } else { several })
}

/// Checks that the kernel can run the operator.
pub(super) fn fits(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    let form = Squeeze::of(plan, operator)?;
    let span = span(tactic, form.x.layout.shape.dim(1)).ok_or(Misfit::Tile)?;
    need(span == 1 || span <= form.x.layout.shape.dim(0) && form.shares == 1, Misfit::Tile)?;
    need(operator.class == CLASS, Misfit::Class)
}
