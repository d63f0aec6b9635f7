//! Convolution and transposed convolution of up to three spatial axes, by gathered columns.
//!
//! Every output starts at its bias (or 0) and takes one fused multiply-add for each tap in row-major order and, within a
//! tap, each input channel of its group in ascending order. A tap that falls outside the input counts as zero. Under a
//! transposed convolution an output meets only the taps of its phase; the others do not count at all.

use super::value::{Lane, Value};
use super::walk::{Bounds, pieces, walk};
use crate::backend::cpu::simd::Kernels;
use crate::primitive::Window;
use crate::tensor::Shape;

/// Most outputs along the last axis that share their gathered columns.
const BLOCK: usize = 64;

/// A convolution with its geometry.
pub struct Convolution {
    window: Window,
    groups: usize,
    transposed: bool,
    input: Shape,
    output: Shape,
}

/// Where one tap meets a run of outputs along an axis.
#[derive(Clone, Copy)]
struct Meeting {
    /// The input coordinate of the run's first output; may lie outside.
    first: i64,
    /// Input elements from one output of the run to the next.
    step: i64,
}

impl Convolution {
    /// A convolution from `input` to `output`, both `[N, C, spatial..]`.
    pub fn new(window: Window, groups: u32, transposed: bool, input: Shape, output: Shape) -> Convolution {
        Convolution {
            window,
            groups: groups.max(1) as usize,
            transposed,
            input,
            output,
        }
    }

    /// Channels of the input in one group.
    fn depth(&self) -> usize {
        self.input.dim(1) as usize / self.groups
    }

    /// Products in one output.
    fn products(&self) -> usize {
        self.depth().saturating_mul(self.window.taps() as usize)
    }

    /// Outputs that share columns: fewer where a column is long, so that they stay in a cache.
    fn block(&self) -> usize {
        (32_768 / self.products().max(1)).clamp(8, BLOCK)
    }

    /// Floats of working memory.
    pub fn work(&self) -> usize {
        self.products().saturating_mul(self.block() + 1)
    }

    /// Number of spatial axes.
    fn spatial(&self) -> usize {
        usize::from(self.window.axes)
    }

    /// Where tap `tap` of spatial axis `axis` meets the outputs from `at` on; `None` where it is not of their phase.
    fn meet(&self, axis: usize, at: i64, tap: u32) -> Option<Meeting> {
        let w = &self.window;
        let (stride, pad) = (i64::from(w.stride[axis]), i64::from(w.pad_begin[axis]));
        let reach = i64::from(tap) * i64::from(w.dilation[axis]);
        if self.transposed {
            let lands = at + pad - reach;
            (lands.rem_euclid(stride) == 0).then(|| Meeting {
                first: lands.div_euclid(stride),
                step: 1,
            })
        } else {
            Some(Meeting {
                first: at * stride - pad + reach,
                step: stride,
            })
        }
    }

    /// Computes the outputs in `bounds`. `work` holds [`Convolution::work`] floats.
    pub fn run(&self, x: &Value<'_>, w: &Value<'_>, bias: Option<&Value<'_>>, y: &Value<'_>, bounds: &Bounds, work: &mut [f32]) {
        let last = self.spatial() + 1;
        // Outputs of one phase lie a stride apart and meet the same taps.
        let phases = if self.transposed {
            self.window.stride[self.spatial() - 1]
        } else {
            1
        };
        let outputs = bounds.range(last);
        walk(&bounds.with(1, 0..1), Some(last), [y.place], |at, [yo]| {
            let batch = x.place.origin + i64::from(at[0]) * x.stride(0);
            for group in 0..self.groups {
                for phase in 0..phases.min(outputs.len() as u32) {
                    let count = (outputs.len() - phase as usize).div_ceil(phases as usize);
                    pieces(count, self.block(), |first, n| {
                        let along = u64::from(phase) + first as u64 * u64::from(phases);
                        let mut start = [0i64; 3];
                        for (axis, s) in start.iter_mut().enumerate().take(self.spatial()) {
                            *s = i64::from(at[axis + 2]);
                        }
                        start[self.spatial() - 1] += along as i64;
                        let block = Block {
                            start,
                            n,
                            group,
                            input: batch + (group * self.depth()) as i64 * x.stride(1),
                            output: yo + along as i64 * y.stride(last),
                            step: i64::from(phases) * y.stride(last),
                        };
                        self.block_of(&block, x, w, bias, y, bounds, work);
                    });
                }
            }
        });
    }

    /// Calls `visit` for every tap that `start` meets, in row-major order, with the tap's coordinates and, per axis, where it lands.
    fn taps(&self, start: &[i64; 3], mut visit: impl FnMut(&[u32; 3], &[Meeting; 3])) {
        let here = Meeting { first: 0, step: 0 };
        let [k0, k1, k2] = self.window.kernel;
        let axes = self.spatial();
        let meet = |axis: usize, tap: u32| {
            if axis < axes {
                self.meet(axis, start[axis], tap)
            } else {
                Some(here)
            }
        };
        for t0 in 0..k0 {
            let Some(m0) = meet(0, t0) else { continue };
            for t1 in 0..k1 {
                let Some(m1) = meet(1, t1) else { continue };
                for t2 in 0..k2 {
                    let Some(m2) = meet(2, t2) else { continue };
                    visit(&[t0, t1, t2], &[m0, m1, m2]);
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn block_of(
        &self,
        block: &Block,
        x: &Value<'_>,
        w: &Value<'_>,
        bias: Option<&Value<'_>>,
        y: &Value<'_>,
        bounds: &Bounds,
        work: &mut [f32],
    ) {
        let (depth, n, pitch, inner) = (self.depth(), block.n, self.block(), self.spatial() - 1);
        let (columns, weights) = work.split_at_mut(self.products() * pitch);
        let mut used = 0;
        self.taps(&block.start, |_, meetings| {
            let mut base = block.input;
            let mut outside = false;
            for (axis, m) in meetings.iter().enumerate().take(inner) {
                outside |= m.first < 0 || m.first >= i64::from(self.input.dim(axis + 2));
                base += m.first * x.stride(axis + 2);
            }
            let m = &meetings[inner];
            let inside = if outside { 0..0 } else { inside(m, n, self.input.dim(inner + 2)) };
            let stride = x.stride(inner + 2);
            base += (m.first + inside.start as i64 * m.step) * stride;
            for c in 0..depth {
                let column = &mut columns[used * pitch..][..n];
                column[..inside.start].fill(0.0);
                column[inside.end..].fill(0.0);
                f32::load(x, base + c as i64 * x.stride(1), stride * m.step, &mut column[inside.clone()]);
                used += 1;
            }
        });
        let wide = self.output.dim(1) as usize / self.groups;
        let channels = bounds.range(1);
        for o in 0..wide {
            let channel = (block.group * wide + o) as u32;
            if !channels.contains(&channel) {
                continue;
            }
            let mut used = 0;
            self.taps(&block.start, |tap, _| {
                // `[O, C / g, k..]`, or transposed `[C, O / g, k..]`.
                let (outer, along) = if self.transposed {
                    (o as i64 * w.stride(1) + (block.group * depth) as i64 * w.stride(0), w.stride(0))
                } else {
                    (i64::from(channel) * w.stride(0), w.stride(1))
                };
                let at: i64 = (0..self.spatial()).map(|a| i64::from(tap[a]) * w.stride(a + 2)).sum();
                f32::load(w, w.place.origin + outer + at, along, &mut weights[used..used + depth]);
                used += depth;
            });
            let mut sums = [0.0f32; BLOCK];
            let sums = &mut sums[..n];
            if let Some(bias) = bias {
                sums.fill(f32::read(bias, bias.place.origin + i64::from(channel) * bias.stride(0)));
            }
            Kernels::get().add_products(&weights[..used], columns, pitch, sums);
            f32::store(y, block.output + i64::from(channel) * y.stride(1), block.step, sums);
        }
    }
}

/// Outputs of one row, of one phase, that share their gathered columns.
struct Block {
    /// Coordinates of the first output, per spatial axis.
    start: [i64; 3],
    /// Number of outputs.
    n: usize,
    /// The group.
    group: usize,
    /// Element of the input's batch and the group's first channel.
    input: i64,
    /// Element of the first output, in channel 0.
    output: i64,
    /// Elements from one output to the next.
    step: i64,
}

/// Which of `n` outputs meet the tap inside the input.
fn inside(m: &Meeting, n: usize, extent: u32) -> std::ops::Range<usize> {
    let step = m.step.max(1);
    let low = (-m.first).max(0) as u64;
    let first = low.div_ceil(step as u64);
    let room = (i64::from(extent) - m.first).max(0) as u64;
    let end = room.div_ceil(step as u64).min(n as u64);
    (first.min(end)) as usize..end as usize
}
