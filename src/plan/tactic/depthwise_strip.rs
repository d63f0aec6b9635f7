//! The strips of the kernels that convolve each channel on its own, and what they demand: the class of `plain`'s depthwise
//! kernels, for halves under small windows.

use super::Misfit;
use super::depthwise_few as few;
use super::forms::need;
use super::product::Pixels;
use crate::plan::format::{Call, Kernel, Operand, Operator, Tactic, View};
use crate::primitive::{Primitive, Unary, Window};
use crate::tensor::DType;

/// How the pixels under a strip come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A thread walks down the strip's rows, of which one is on its way.
    Walk,
    /// A thread asks for all of them at once; the strip has one row.
    Burst,
    /// A block asks for all under a tile at once, runs of as many rows as the strip has, and keeps them in shared memory.
    Patch,
}

/// One way to cut the output into strips: neighbouring outputs of a row, a thread's, and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    /// Outputs along a row.
    pub run: u16,
    /// Rows.
    pub depth: u16,
    /// How their pixels come.
    pub way: Way,
}

const fn strip(run: u16, depth: u16) -> Strip {
    Strip {
        run,
        depth,
        way: Way::Walk,
    }
}

const fn burst(run: u16) -> Strip {
    Strip {
        run,
        depth: 1,
        way: Way::Burst,
    }
}

const fn patch(run: u16, depth: u16) -> Strip {
    Strip {
        run,
        depth,
        way: Way::Patch,
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[Strip] = &[
    strip(4, 4),
    strip(4, 7),
    strip(4, 14),
    strip(4, 28),
    strip(2, 2),
    strip(2, 4),
    strip(2, 7),
    strip(2, 1),
    burst(1),
    burst(2),
    patch(2, 1),
    patch(2, 2),
    patch(2, 4),
    patch(4, 2),
    patch(4, 4),
    patch(4, 8),
];

/// Channels that the other kernels load at once.
const GROUP: u32 = 8;
/// Threads that occupy a unit, of two channels each.
const OCCUPIED: u64 = 128;

impl Strip {
    /// The entry that a tactic names; `None` for tactics of other kernels or strips that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static Strip> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvDepthwise && tactic.tile == (entry.run, entry.depth)).then_some(entry)
    }

    /// The tactics of the whole menu.
    pub fn tactics() -> impl Iterator<Item = Tactic> {
        (0..).zip(MENU).map(|(variant, entry)| Tactic {
            kernel: Kernel::ConvDepthwise,
            tile: (entry.run, entry.depth),
            variant,
        })
    }

    /// The unit and the kernel in it for such a window and such a tail; `None` where there is none.
    pub fn function(&self, window: &Window, tail: Option<Unary>) -> Option<(&'static str, String)> {
        let run = self.run;
        Some(match self.way {
            Way::Walk => {
                let (taps, step) = form(window)?;
                let unit = if tail.is_some_and(is_curved) {
                    "depthwise_curved"
                } else {
                    "depthwise_strip"
                };
                (unit, format!("{unit}_{taps}_{step}_{run}"))
            }
            Way::Burst => {
                let (rows, columns, step) = few::burst(window)?;
                ("depthwise_burst", format!("depthwise_burst_{rows}_{columns}_{step}_{run}"))
            }
            Way::Patch => ("depthwise_patch", format!("depthwise_patch_{}_{run}", few::patch(window)?)),
        })
    }

    /// Channels of a thread: two words where weights and sums leave room for them.
    pub fn channels(&self, taps: u32) -> u32 {
        if self.way == Way::Walk && taps == 3 && self.run == 4 {
            4
        } else {
            2
        }
    }
}

/// Taps along either axis and the step from output to output, for the windows under which threads walk. Taps are as far apart along
/// the rows as along the columns.
pub fn form(window: &Window) -> Option<(u32, u32)> {
    let [taps, columns, _] = window.kernel;
    if window.axes != 2 || taps != columns {
        return None;
    }
    match (taps, &window.stride[..2], &window.dilation[..2]) {
        (3 | 5 | 7, [1, 1], [rows, columns]) if rows == columns => Some((taps, 1)),
        (3 | 5, [2, 2], [1, 1]) => Some((taps, 2)),
        _ => None,
    }
}

/// Functions of few steps that have a path.
fn is_straight(function: Unary) -> bool {
    matches!(function, Unary::Relu | Unary::Clip(..) | Unary::HardSwish)
}

/// Those whose steps take registers: of a unit of their own.
fn is_curved(function: Unary) -> bool {
    matches!(
        function,
        Unary::LeakyRelu(..) | Unary::Silu | Unary::Gelu | Unary::GeluTanh | Unary::Sigmoid
    )
}

/// The function behind the sums: none, or one of those that have a path.
pub fn tail(operator: &Operator) -> Result<Option<Unary>, Misfit> {
    let unary = |call: &Call| match (&call.primitive, call.inputs.as_slice()) {
        (Primitive::Unary(kind), [Operand::Inner(0)]) if is_straight(*kind) || is_curved(*kind) => Some(*kind),
        _ => None,
    };
    match operator.calls.get(1..) {
        Some([]) => Ok(None),
        Some([call]) => unary(call).map(Some).ok_or(Misfit::Tail),
        _ => Err(Misfit::Tail),
    }
}

/// Checks that the kernels compute a depthwise convolution (see `plain`) of two spatial axes.
pub fn fits(tactic: Tactic, operator: &Operator) -> Result<(), Misfit> {
    let strip = Strip::of(tactic).ok_or(Misfit::Tile)?;
    let call = operator.calls.first().ok_or(Misfit::Primitive)?;
    let (Primitive::Conv { window, .. }, [y]) = (&call.primitive, operator.outputs.as_slice()) else {
        return Err(Misfit::Primitive);
    };
    need(strip.function(window, tail(operator)?).is_some(), Misfit::Primitive)?;
    let view = |index: usize| match call.inputs.get(index) {
        Some(Operand::View(view)) => Ok(view),
        _ => Err(Misfit::Primitive),
    };
    let (x, weights) = (view(0)?, view(1)?);
    let halves = [x, weights, y].iter().all(|v| v.dtype == DType::F16) && operator.calls.iter().all(|c| c.dtype == DType::F16);
    need(halves, Misfit::Type)?;
    let channels = strip.channels(window.kernel[0]);
    let read = if strip.way == Way::Patch { GROUP } else { channels };
    let near = strip.way != Way::Burst || Pixels::of(x).is_some_and(|p| i32::try_from(p.strides[2] * 2).is_ok());
    need(in_groups(x, read) && in_groups(y, channels) && near, Misfit::Layout)
}

/// The tactics that come before those of the other kernels, best first, and those that come after.
pub(super) fn menu(operator: &Operator, units: u32) -> (Vec<Tactic>, Vec<Tactic>) {
    let mut before = few::leading(operator, units);
    let walks = leading(operator, units);
    before.extend(walks.iter().filter(|t| !before.contains(t)).copied().collect::<Vec<_>>());
    let after = Strip::tactics().filter(|t| !before.contains(t)).collect();
    (before, after)
}

/// The tactics under which threads walk, best first, where the kernels for whole groups of channels do not take the operator.
fn leading(operator: &Operator, units: u32) -> Vec<Tactic> {
    let x = operator.calls.first().and_then(|call| call.inputs.first());
    let (Some(Operand::View(x)), Some(y)) = (x, operator.outputs.first()) else {
        return Vec::new();
    };
    if in_groups(x, GROUP) || y.layout.shape.rank() != 4 {
        return Vec::new();
    }
    // The largest strips that occupy so many units, or else the smallest.
    let occupied = OCCUPIED * u64::from(units);
    let shape = y.layout.shape;
    let threads = |t: &Tactic| {
        let [rows, pixels] = [(2, t.tile.1), (3, t.tile.0)].map(|(axis, each)| u64::from(shape.dim(axis).div_ceil(u32::from(each))));
        rows * pixels * u64::from(shape.dim(1) / 2)
    };
    let walks = |t: &Tactic| Strip::of(*t).is_some_and(|s| s.way == Way::Walk);
    let mut all: Vec<Tactic> = Strip::tactics().filter(walks).collect();
    all.sort_by_key(|t| match threads(t) {
        enough if enough >= occupied => (0, enough),
        few => (1, u64::MAX - few),
    });
    all
}

/// There are whole groups of so many channels, and each begins where it can be loaded at once.
fn in_groups(view: &View, channels: u32) -> bool {
    let shape = view.layout.shape;
    let whole = shape.rank() == 4 && shape.dim(1).is_multiple_of(channels);
    let steps = Pixels::of(view).is_some_and(|p| p.strides[..3].iter().all(|s| s % i64::from(channels) == 0));
    whole && steps && view.origin.is_multiple_of(u64::from(channels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_kernel_of_the_source() {
        let sources = [
            include_str!("../../backend/cuda/kernels/depthwise_strip.cu"),
            include_str!("../../backend/cuda/kernels/depthwise_curved.cu"),
        ];
        let walks = MENU.iter().filter(|e| e.way == Way::Walk);
        for (entry, (taps, step)) in walks.flat_map(|e| [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)].map(|w| (e, w))) {
            let window = Window {
                stride: [step, step, 1],
                ..Window::new(&[taps, taps])
            };
            for (source, tail) in sources.iter().zip([None, Some(Unary::Silu)]) {
                let (_, function) = entry.function(&window, tail).unwrap();
                let line = format!(
                    "\nDEPTHWISE_STRIP({function}, {taps}, {step}, {}, {}, ",
                    entry.run,
                    entry.channels(taps) / 2
                );
                assert_eq!(source.matches(&line).count(), 1, "{line}");
            }
        }
    }

    #[test]
    fn tactics_name_entries() {
        for (tactic, entry) in Strip::tactics().zip(MENU) {
            assert_eq!(Strip::of(tactic), Some(entry));
            assert_eq!(Strip::of(Tactic { tile: (0, 0), ..tactic }), None);
        }
    }

    #[test]
    fn square_windows_of_few_taps_have_a_kernel() {
        let window = |kernel: [u32; 2], stride: [u32; 2], dilation: [u32; 2]| {
            let mut window = Window::new(&kernel);
            window.stride[..2].copy_from_slice(&stride);
            window.dilation[..2].copy_from_slice(&dilation);
            form(&window)
        };
        assert_eq!(window([3, 3], [1, 1], [1, 1]), Some((3, 1)));
        assert_eq!(window([5, 5], [1, 1], [2, 2]), Some((5, 1)));
        assert_eq!(window([5, 5], [2, 2], [1, 1]), Some((5, 2)));
        assert_eq!(window([5, 5], [2, 2], [2, 2]), None);
        assert_eq!(window([3, 3], [1, 1], [1, 2]), None);
        assert_eq!(window([3, 3], [2, 1], [1, 1]), None);
        assert_eq!(window([7, 7], [1, 1], [1, 1]), Some((7, 1)));
        assert_eq!(window([7, 7], [2, 2], [1, 1]), None);
        assert_eq!(window([3, 5], [1, 1], [1, 1]), None);
        assert_eq!(window([9, 9], [1, 1], [1, 1]), None);
    }
}
