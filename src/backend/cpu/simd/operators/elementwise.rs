//! Chains of elementwise primitives, and copies, over contiguous runs.
//!
//! The innermost two axes (by the output's storage) become rows and runs; where runs follow each other densely in every
//! tensor they are joined. Batch and row axes are kept apart, so that chunks and tiles can cut along them.

use super::site::Site;
use super::tail::{Link, binary, link, unary};
use super::{Context, tail};
use crate::backend::cpu::arena::Memory;
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{self, Kernels, MAX_STEPS, MapRows, Step};
use crate::limits::MAX_RANK;
use crate::plan::format::{Call, Operand, Operator, Plan};
use crate::primitive::{Binary, Primitive, Region};
use std::ops::Range;

/// Elements of a tile, about.
const TILE: usize = 8192;

/// A tensor and its strides over the loop's axes, in the loop's order.
#[derive(Clone, Copy)]
struct Walk {
    site: Site,
    strides: [usize; MAX_RANK],
}

enum Stage {
    Unary(simd::Unary),
    Binary { op: simd::Binary, walk: Walk, swapped: bool },
}

struct Elementwise {
    kernels: &'static Kernels,
    source: Walk,
    out: Walk,
    stages: Vec<Stage>,
    /// Extents of the loop's axes: outer axes, then rows, then the run.
    extents: [usize; MAX_RANK],
    axes: usize,
    /// Which loop axis is the output's batch axis and which its row axis.
    batch: Option<usize>,
    rows: Option<usize>,
}

/// The running value's first tensor and the steps after it, from the operator's calls.
fn chain(plan: &Plan, operator: &Operator) -> Option<(Site, Vec<Link>)> {
    let first: &Call = operator.calls.first()?;
    let site = |operand: &Operand| Site::of_operand(plan, operand);
    let (source, mut links) = match first.primitive {
        Primitive::Copy => (site(first.inputs.first()?)?, vec![]),
        Primitive::Unary(function) => (site(first.inputs.first()?)?, vec![Link::Unary(unary(function))]),
        Primitive::Binary(function) if function != Binary::Pow => {
            let (a, b) = (site(first.inputs.first()?)?, site(first.inputs.get(1)?)?);
            // The running value is loaded as a run; a repeated tensor on the left changes sides.
            let repeats = |s: &Site| (0..s.shape.rank()).any(|x| s.shape.dim(x) > 1 && s.stride(x) == 0);
            let swapped = repeats(&a) && !repeats(&b);
            let (source, other) = if swapped { (b, a) } else { (a, b) };
            (
                source,
                vec![Link::Binary {
                    op: binary(function)?,
                    site: other,
                    swapped,
                }],
            )
        }
        _ => return None,
    };
    for (index, call) in operator.calls.iter().enumerate().skip(1) {
        links.push(link(plan, call, index)?);
    }
    (links.len() <= MAX_STEPS).then_some((source, links))
}

/// Compiles a chain; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator) -> Option<Box<dyn Kernel>> {
    let plan = context.plan;
    let (source, links) = chain(plan, operator)?;
    let out = Site::of(plan, operator.outputs.first()?)?;
    let shape = out.shape;
    // Axes from the outermost to the innermost of the output's storage; those of extent 1 drop out.
    let mut order: Vec<usize> = (0..shape.rank()).filter(|&a| shape.dim(a) > 1).collect();
    order.sort_by_key(|&a| (std::cmp::Reverse(out.stride(a)), a));
    let walk = |site: Site| -> Option<Walk> {
        let mut strides = [0; MAX_RANK];
        for (i, &a) in order.iter().enumerate() {
            strides[i] = usize::try_from(site.stride(a)).ok()?;
        }
        Some(Walk { site, strides })
    };
    let (mut source, mut out) = (walk(source)?, walk(out)?);
    let mut stages = Vec::new();
    for link in links {
        stages.push(match link {
            Link::Unary(op) => Stage::Unary(op),
            Link::Binary { op, site, swapped } => Stage::Binary {
                op,
                walk: walk(site)?,
                swapped,
            },
        });
    }
    let mut extents = [1; MAX_RANK];
    for (i, &a) in order.iter().enumerate() {
        extents[i] = shape.dim(a) as usize;
    }
    let mut axes = order.len();
    let position = |axis: usize| order.iter().position(|&a| a == axis);
    let (batch, rows) = (position(0), shape.row_axis().and_then(position));
    // The innermost axis joins the one around it where every tensor runs on; neither may be one that regions cut.
    while axes >= 2 {
        let (inner, outer) = (axes - 1, axes - 2);
        let cut = [batch, rows].iter().any(|&c| c == Some(inner) || c == Some(outer));
        let joins = |w: &Walk| w.strides[outer] == w.strides[inner] * extents[inner];
        let all = joins(&source) && joins(&out) && stages.iter().all(|s| !matches!(s, Stage::Binary { walk, .. } if !joins(walk)));
        if cut || !all {
            break;
        }
        let join = |w: &mut Walk| w.strides[outer] = w.strides[inner];
        join(&mut source);
        join(&mut out);
        for stage in &mut stages {
            if let Stage::Binary { walk, .. } = stage {
                join(walk);
            }
        }
        extents[outer] *= extents[inner];
        extents[inner] = 1;
        axes -= 1;
    }
    // A run is contiguous in the output and the source, and contiguous or one value in the others.
    let last = axes.checked_sub(1);
    let step = |w: &Walk| last.map_or(1, |l| w.strides[l]);
    let runs = step(&source) == 1 && step(&out) == 1;
    let operands = stages.iter().all(|s| !matches!(s, Stage::Binary { walk, .. } if step(walk) > 1));
    (runs && operands).then(|| {
        Box::new(Elementwise {
            kernels: context.kernels,
            source,
            out,
            stages,
            extents,
            axes,
            batch,
            rows,
        }) as _
    })
}

impl Elementwise {
    /// The region as a range per loop axis.
    fn ranges(&self, region: &Region) -> [Range<usize>; MAX_RANK] {
        let mut ranges = self.extents.map(|e| 0..e);
        let usize_range = |r: &Range<u32>| r.start as usize..r.end as usize;
        if let Some(b) = self.batch {
            ranges[b] = usize_range(&region.batch);
        }
        if let Some(r) = self.rows {
            ranges[r] = usize_range(&region.rows);
        }
        ranges
    }

    /// Loop axis of rows (the one around the runs), if there is one, and the number of axes outside it.
    fn split(&self) -> (Option<usize>, usize) {
        (self.axes.checked_sub(2), self.axes.saturating_sub(2))
    }

    /// Outer positions, and row blocks of how many rows.
    fn blocks(&self, ranges: &[Range<usize>; MAX_RANK]) -> (usize, usize, usize) {
        let (row_axis, outer) = self.split();
        let run = self.axes.checked_sub(1).map_or(1, |l| ranges[l].len());
        let rows = row_axis.map_or(1, |r| ranges[r].len());
        let block = (TILE / run.max(1)).clamp(1, rows.max(1));
        (ranges[..outer].iter().map(|r| r.len()).product(), rows.div_ceil(block), block)
    }
}

impl Kernel for Elementwise {
    fn tiles(&self, region: &Region) -> u32 {
        let ranges = self.ranges(region);
        if region.is_empty() || ranges.iter().any(|r| r.is_empty()) {
            return 0;
        }
        let (outer, blocks, _) = self.blocks(&ranges);
        (outer * blocks) as u32
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, _: &mut [u8]) {
        let ranges = self.ranges(region);
        let (_, blocks, block) = self.blocks(&ranges);
        let (row_axis, outer) = self.split();
        for tile in tiles {
            let (mut position, b) = (tile as usize / blocks, tile as usize % blocks);
            let mut at = [0; MAX_RANK];
            for a in (0..outer).rev() {
                at[a] = ranges[a].start + position % ranges[a].len();
                position /= ranges[a].len();
            }
            let mut rows = 1;
            if let Some(r) = row_axis {
                at[r] = ranges[r].start + b * block;
                rows = block.min(ranges[r].end - at[r]);
            }
            let mut n = 1;
            if let Some(l) = self.axes.checked_sub(1) {
                at[l] = ranges[l].start;
                n = ranges[l].len();
            }
            let offset = |w: &Walk| -> usize { (0..self.axes).map(|a| at[a] * w.strides[a]).sum() };
            let pitch = |w: &Walk| row_axis.map_or(0, |r| w.strides[r]);
            let mut steps = tail::blank();
            for (step, stage) in steps.iter_mut().zip(&self.stages) {
                *step = match stage {
                    Stage::Unary(op) => Step::Unary(*op),
                    Stage::Binary { op, walk, swapped } => {
                        let base = walk.site.pointer(memory).wrapping_add(offset(walk)).cast_const();
                        let single = self.axes.checked_sub(1).is_none_or(|l| walk.strides[l] == 0);
                        let operand = if single {
                            simd::Operand::RowScalars { base, stride: pitch(walk) }
                        } else {
                            simd::Operand::Strided { base, stride: pitch(walk) }
                        };
                        Step::Binary {
                            op: *op,
                            operand,
                            swapped: *swapped,
                        }
                    }
                };
            }
            let args = MapRows {
                src: self.source.site.pointer(memory).wrapping_add(offset(&self.source)),
                src_stride: pitch(&self.source),
                dst: self.out.site.pointer(memory).wrapping_add(offset(&self.out)),
                dst_stride: pitch(&self.out),
                rows,
                n,
                steps: &steps[..self.stages.len()],
            };
            // SAFETY: rows and runs lie in the views by their own strides; the plan keeps writes apart from reads.
            unsafe { self.kernels.map_rows(&args) }
        }
    }
}
