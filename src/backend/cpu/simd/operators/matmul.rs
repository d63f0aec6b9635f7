//! Matrix products.
//!
//! The product runs on rows of contiguous K by packed panels of the right matrix. Where the output is stored with its
//! rows innermost, the transposed product is computed instead: each element is the same sum in the same order.
//! A constant right matrix is packed at prepare, any other one per tile into scratch, as are left rows that are not
//! contiguous along K.

use super::packing::{Form, Packings, floats};
use super::site::Site;
use super::tail::{Link, blank, link};
use super::{Context, unravel};
use crate::backend::cpu::arena::{Block, Memory};
use crate::backend::cpu::kernel::Kernel;
use crate::backend::cpu::simd::{self, Gemm, Kernels, MAX_STEPS, Step, packed_len};
use crate::plan::format::{Operand, Operator};
use crate::primitive::{Primitive, Region};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a tile.
const ROWS: usize = 96;
/// Panels of a tile where the right matrix is packed per tile.
const PANELS: usize = 4;
/// Fewer tiles than this are cut further along the columns.
const ENOUGH_TILES: usize = 16;

/// Tiles along the rows where the right matrix is packed per tile.
const FEW_TILES: usize = 8;

/// A matrix `[.., rows, columns]` with strides, seen in the product's orientation.
#[derive(Clone, Copy)]
struct Matrix {
    site: Site,
    row: usize,
    column: usize,
}

struct MatMul {
    kernels: &'static Kernels,
    a: Matrix,
    b: Matrix,
    out: Matrix,
    /// `(m, n, k)` in the product's orientation.
    size: (usize, usize, usize),
    /// The product is the transposed one: M of the primitive is `n`.
    transposed: bool,
    packed: Option<Arc<Block>>,
    bias: Option<Vec<f32>>,
    links: Vec<(Link, Option<Matrix>)>,
}

fn matrix(site: Site, transposed: bool) -> Option<Matrix> {
    let r = site.shape.rank();
    let (mut row, mut column) = (usize::try_from(site.stride(r - 2)).ok()?, usize::try_from(site.stride(r - 1)).ok()?);
    if transposed {
        std::mem::swap(&mut row, &mut column);
    }
    Some(Matrix { site, row, column })
}

/// Compiles a matrix product; see the module.
pub fn compile(context: &Context<'_>, operator: &Operator, packings: &mut Packings) -> Option<Box<dyn Kernel>> {
    let plan = context.plan;
    let call = operator.calls.first()?;
    let Primitive::MatMul = call.primitive else { return None };
    let site = |i: usize| Site::of_operand(plan, call.inputs.get(i)?);
    let (a, b, out) = (site(0)?, site(1)?, Site::of(plan, operator.outputs.first()?)?);
    let r = out.shape.rank();
    let (m, n, k) = (
        out.shape.dim(r - 2) as usize,
        out.shape.dim(r - 1) as usize,
        a.shape.dim(r - 1) as usize,
    );
    let transposed = out.stride(r - 1) > 1 && out.stride(r - 2) <= 1;
    let (a, b, out) = (matrix(a, transposed)?, matrix(b, transposed)?, matrix(out, transposed)?);
    let (a, b) = if transposed { (b, a) } else { (a, b) };
    let size = if transposed { (n, m, k) } else { (m, n, k) };
    if out.column > 1 || (out.column == 0 && size.1 > 1) {
        return None;
    }
    let bias = match call.inputs.get(2) {
        None => None,
        // A bias per column of a product in its own orientation starts the sums.
        Some(operand) if !transposed => {
            let site = Site::of_operand(plan, operand)?;
            if (0..r - 1).any(|axis| site.stride(axis) != 0) {
                return None;
            }
            let all = site.gather(context.sections)?;
            Some(all.get(..n)?.to_vec())
        }
        Some(_) => return None,
    };
    let mut links = Vec::new();
    for (index, call) in operator.calls.iter().enumerate().skip(1) {
        let link = link(plan, call, index)?;
        let operand = match &link {
            Link::Binary { site, .. } => Some(matrix(*site, transposed)?).filter(|o| o.column <= 1),
            Link::Unary(_) => None,
        };
        if matches!(link, Link::Binary { .. }) && operand.is_none() {
            return None;
        }
        links.push((link, operand));
    }
    if links.len() > MAX_STEPS {
        return None;
    }
    let Operand::View(right) = call.inputs.get(1)? else { return None };
    let constant = !transposed && b.site.is_constant() && (0..r - 2).all(|axis| b.site.stride(axis) == 0);
    let packed = if constant {
        Some(packings.get(context, right, Form::Matrix, packed_len(k, n), |source, packed| {
            context.kernels.pack_b(&source[..k * n], (n, 1), (k, n), 0..n, packed);
            Some(())
        })?)
    } else {
        None
    };
    Some(Box::new(MatMul {
        kernels: context.kernels,
        a,
        b,
        out,
        size,
        transposed,
        packed,
        bias,
        links,
    }))
}

/// How a region is cut: leading positions, row blocks, column blocks.
struct Grid {
    leading: [Range<u32>; 4],
    rows: Range<usize>,
    columns: Range<usize>,
    extents: [u32; 3],
    row_block: usize,
    column_block: usize,
}

impl MatMul {
    fn grid(&self, region: &Region) -> Grid {
        let shape = self.out.site.shape;
        let r = shape.rank();
        let mut leading = [0..1, 0..1, 0..1, 0..1];
        for (axis, range) in leading.iter_mut().enumerate().take(r - 2) {
            *range = 0..shape.dim(axis);
        }
        let usize_range = |range: &Range<u32>| range.start as usize..range.end as usize;
        let mut m = 0..shape.dim(r - 2) as usize;
        if r == 2 {
            m = usize_range(&region.batch);
        } else {
            leading[0] = region.batch.clone();
            if shape.row_axis() == Some(r - 2) {
                m = usize_range(&region.rows);
            }
        }
        let n = 0..shape.dim(r - 1) as usize;
        let (rows, columns) = if self.transposed { (n, m) } else { (m, n) };
        let row_block = if rows.len() >= ROWS * ENOUGH_TILES {
            ROWS
        } else {
            rows.len()
                .div_ceil(ENOUGH_TILES)
                .next_multiple_of(self.kernels.mr())
                .clamp(self.kernels.mr(), ROWS)
        };
        // Where the right matrix is packed per tile, taller tiles pack it less often; copied rows must fit the scratch.
        let row_block = match self.packed {
            Some(_) => row_block,
            None if self.copies() => ROWS.min(rows.len()).max(1),
            None => rows.len().div_ceil(FEW_TILES).max(ROWS).min(rows.len()).max(1),
        };
        let positions: usize = leading.iter().map(|l| l.len()).product();
        let row_blocks = rows.len().div_ceil(row_block);
        let (nr, panels) = (self.kernels.nr(), columns.len().div_ceil(self.kernels.nr()).max(1));
        let wanted = ENOUGH_TILES.div_ceil((positions * row_blocks).max(1)).clamp(1, panels);
        let mut per_tile = panels.div_ceil(wanted);
        if self.packed.is_none() {
            per_tile = per_tile.min(PANELS);
        }
        let column_block = per_tile * nr;
        let extents = [positions, row_blocks, columns.len().div_ceil(column_block)].map(|e| e as u32);
        Grid {
            leading,
            rows,
            columns,
            extents,
            row_block,
            column_block,
        }
    }

    fn offset(&self, site: &Site, at: &[usize; 4]) -> usize {
        let r = site.shape.rank();
        (0..r - 2).map(|axis| at[axis] * site.stride(axis).max(0) as usize).sum()
    }

    /// True if the left rows are not contiguous along K.
    fn copies(&self) -> bool {
        self.a.column != 1 && self.size.2 > 1
    }

    /// Floats of scratch for a packed right block and a copied left block.
    fn scratch_floats(&self) -> (usize, usize) {
        let k = self.size.2;
        let packed = if self.packed.is_some() {
            0
        } else {
            packed_len(k, PANELS * self.kernels.nr())
        };
        let copied = if self.copies() { ROWS * k } else { 0 };
        (packed, copied)
    }
}

impl Kernel for MatMul {
    fn tiles(&self, region: &Region) -> u32 {
        if region.is_empty() {
            0
        } else {
            self.grid(region).extents.iter().product()
        }
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, scratch: &mut [u8]) {
        let grid = self.grid(region);
        let k = self.size.2;
        let (packed_floats, copied_floats) = self.scratch_floats();
        let (packed, rest) =
            bytemuck::cast_slice_mut::<u8, f32>(&mut scratch[..(packed_floats + copied_floats) * 4]).split_at_mut(packed_floats);
        // Which block of the right matrix is packed: where all columns are one block, it serves all rows of a position.
        let mut held = None;
        for tile in tiles {
            let [position, rows, columns] = unravel(tile, grid.extents).map(|i| i as usize);
            let mut at = [0; 4];
            let mut left = position;
            for axis in (0..4).rev() {
                let range = &grid.leading[axis];
                at[axis] = range.start as usize + left % range.len();
                left /= range.len();
            }
            let row = grid.rows.start + rows * grid.row_block;
            let m = grid.row_block.min(grid.rows.end - row);
            let column = grid.columns.start + columns * grid.column_block;
            let n = grid.column_block.min(grid.columns.end - column);
            let mut a = self
                .a
                .site
                .pointer(memory)
                .wrapping_add(self.offset(&self.a.site, &at) + row * self.a.row)
                .cast_const();
            let mut a_stride = self.a.row;
            if copied_floats > 0 {
                for (i, to) in rest.chunks_exact_mut(k).take(m).enumerate() {
                    for (j, value) in to.iter_mut().enumerate() {
                        // SAFETY: row `row + i` and column `j` lie in the left matrix, which is complete (the plan).
                        *value = unsafe { a.wrapping_add(i * self.a.row + j * self.a.column).read() };
                    }
                }
                (a, a_stride) = (rest.as_ptr(), k);
            }
            let weights = match &self.packed {
                Some(block) => floats(block)[column * k..].as_ptr(),
                None if held == Some((position, columns)) => packed.as_ptr(),
                None => {
                    held = Some((position, columns));
                    let b = self
                        .b
                        .site
                        .pointer(memory)
                        .wrapping_add(self.offset(&self.b.site, &at) + column * self.b.column);
                    let reach = (k - 1) * self.b.row + (n - 1) * self.b.column + 1;
                    // SAFETY: rows `0..k` and columns `column..column + n` lie in the right matrix, which is complete.
                    let source = unsafe { std::slice::from_raw_parts(b.cast_const(), reach) };
                    self.kernels.pack_b(source, (self.b.row, self.b.column), (k, n), 0..n, packed);
                    packed.as_ptr()
                }
            };
            let mut steps = blank();
            for (step, (link, operand)) in steps.iter_mut().zip(&self.links) {
                *step = match (link, operand) {
                    (Link::Binary { op, swapped, .. }, Some(o)) => {
                        let offset = self.offset(&o.site, &at) + row * o.row + column * o.column;
                        let base = o.site.pointer(memory).wrapping_add(offset).cast_const();
                        let operand = if o.column == 0 && self.size.1 > 1 {
                            simd::Operand::RowScalars { base, stride: o.row }
                        } else {
                            simd::Operand::Strided { base, stride: o.row }
                        };
                        Step::Binary {
                            op: *op,
                            operand,
                            swapped: *swapped,
                        }
                    }
                    (Link::Unary(op), _) => Step::Unary(*op),
                    (Link::Binary { .. }, None) => unreachable!("compile gives every binary link its operand"),
                };
            }
            let args = Gemm {
                a,
                a_stride,
                m,
                k,
                weights,
                bias: self.bias.as_ref().map_or(std::ptr::null(), |b| b[column..].as_ptr()),
                bias_stride: 0,
                n,
                out: self
                    .out
                    .site
                    .pointer(memory)
                    .wrapping_add(self.offset(&self.out.site, &at) + row * self.out.row + column),
                out_stride: self.out.row,
                steps: &steps[..self.links.len()],
            };
            // SAFETY: rows and columns lie in the views; the output block is this tile's alone (the plan); the panels are
            // the whole packed matrix from a multiple of `nr` on, or the block just packed.
            unsafe { self.kernels.gemm(&args) }
        }
    }

    fn scratch_bytes(&self) -> usize {
        let (packed, copied) = self.scratch_floats();
        (packed + copied) * 4
    }
}
