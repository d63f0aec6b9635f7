//! Products of two computed matrices of halves: `kernels/pair_mma.cu`.

use super::matrices::Matrices;
use super::operands::check;
use super::tail::{FROM_MEMORY, Tail, TailOperand, binary_number};
use super::views::{DeviceView, Divisor, PIECE, dtype_number};
use super::{Addresses, BindError, Kernel, Launch, blocks};
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
use crate::plan::tactic::pair::{BLOCK_K, STRANDS};
use crate::primitive::{Binary, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;
/// Most stages of K in shared memory; a short K takes fewer, so that more blocks share an SM.
const STAGES: u32 = 4;
/// Bits of [`Params::ways`]: which operands are runs from multiples of 16 bytes on; whether results are whole runs of halves from multiples
/// of 8 bytes on with nothing behind the product; whether what is added to them, and nothing else, lies so, too; and whether it is the
/// sum's first operand.
const WIDE: [u32; 2] = [1, 2];
const EIGHTS: u32 = 4;
const ADDS_EIGHTS: u32 = 8;
const ADDS_FIRST: u32 = 16;
/// Halves in 8 bytes.
const EIGHT_BYTES: i64 = 4;
/// K of a block in shared memory where one strand works on a tile, and where several do.
const DEPTHS: [u32; 2] = [64, BLOCK_K];
/// Outputs of a small tile along either side.
const SMALL_SIDE: u32 = 32;
/// Blocks of a cluster that sum a round each.
const MATES: u32 = 4;
/// Halves behind a row in shared memory.
const ROW_GAP: u32 = 8;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    y: DeviceView,
    a: DeviceView,
    b: DeviceView,
    bias: DeviceView,
    tail: Tail,
    start: [u32; MAX_RANK],
    outer: [Divisor; MAX_RANK],
    tiles_down: Divisor,
    tiles_across: Divisor,
    row_axis: u32,
    rows: u32,
    columns: u32,
    depth: u32,
    range: u32,
    tiles: u32,
    ways: u32,
    rounds: u32,
}

struct PairMma {
    operator: Operator,
}

/// Compiles a product of two computed matrices of halves.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    Ok(Box::new(PairMma {
        operator: operator.clone(),
    }))
}

/// How an operand is read: turned, if its lines are not runs along K but K's are runs along its lines, and in whole pieces.
struct Reading {
    turned: bool,
    wide: bool,
}

impl Reading {
    /// Of an operand whose lines lie along axis `line`, of which `first` come before the chunk's, and its K along axis `k`.
    fn of(view: &DeviceView, line: usize, k: usize, first: u32) -> Reading {
        let run = |axis: usize| view.strides[axis] == 1 || view.extents[axis] == 1;
        let turned = !run(k) && run(line);
        let along = if turned { line } else { k };
        let skipped = if turned { u64::from(first) * 2 } else { 0 };
        Reading {
            turned,
            wide: view.in_pieces(along) && skipped.is_multiple_of(PIECE),
        }
    }

    /// Halves of a block of `depth` of K in shared memory, of so many lines.
    fn halves(&self, lines: u32, depth: u32) -> u32 {
        if self.turned {
            depth * (lines + ROW_GAP)
        } else {
            lines * (depth + ROW_GAP)
        }
    }
}

/// Whether the halves of a tensor are runs along the axis `columns`, each a multiple of 8 bytes from one.
fn in_eights(address: u64, strides: &[i64; MAX_RANK], columns: usize) -> bool {
    let beside = |axis: usize| axis == columns || strides[axis] % EIGHT_BYTES == 0;
    strides[columns] == 1 && (0..MAX_RANK).all(beside) && address.is_multiple_of(2 * EIGHT_BYTES as u64)
}

/// How results are finished and stored: bits of [`Params::ways`].
fn ending(product: &Matrices, tail: &Tail) -> u32 {
    let axis = product.row_axis + 1;
    let half = dtype_number(DType::F16);
    let stored = product.y.dtype == half && in_eights(product.y.address, &product.y.strides, axis);
    if !stored || i64::from(product.columns) % EIGHT_BYTES != 0 || product.bias.address != 0 {
        return 0;
    }
    let sum = &tail.call[0];
    let lies = |o: &TailOperand| o.source == FROM_MEMORY && o.dtype == half && in_eights(o.address, &o.strides, axis);
    match tail.calls {
        0 => EIGHTS,
        1 if sum.function != binary_number(Binary::Add) => 0,
        1 if sum.a.source == 0 && lies(&sum.b) => EIGHTS | ADDS_EIGHTS,
        1 if sum.b.source == 0 && lies(&sum.a) => EIGHTS | ADDS_EIGHTS | ADDS_FIRST,
        _ => 0,
    }
}

impl Kernel for PairMma {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let side = u32::from(self.operator.tactic.tile.0.max(1));
        let splits = u32::from(self.operator.class.split_k.max(1));
        // Small tiles have warps that share K out, where it is.
        let strands = if side == SMALL_SIDE && splits > 1 { u32::from(STRANDS) } else { 1 };
        let rounds = splits.div_ceil(strands);
        let Some(product) = Matrices::new(at, &self.operator, region, [side; 2])? else {
            return Ok(Vec::new());
        };
        let row_axis = product.row_axis;
        let of_a = Reading::of(&product.a, row_axis, row_axis + 1, product.start[row_axis]);
        let of_b = Reading::of(&product.b, row_axis + 1, row_axis, 0);
        let tail = Tail::new(at, &self.operator)?;
        let wide = |bit: usize, of: &Reading| if of.wide { WIDE[bit] } else { 0 };
        let params = Params {
            y: product.y,
            a: product.a,
            b: product.b,
            bias: product.bias,
            tail,
            start: product.start,
            outer: product.outer,
            tiles_down: Divisor::new(product.tiles[0]),
            tiles_across: Divisor::new(product.tiles[1]),
            row_axis: row_axis as u32,
            rows: product.rows,
            columns: product.columns,
            depth: product.depth,
            range: self.operator.class.range(product.depth, BLOCK_K),
            tiles: product.count,
            ways: wide(0, &of_a) | wide(1, &of_b) | ending(&product, &tail),
            rounds,
        };
        let block = DEPTHS[usize::from(strands > 1)];
        let stages = params.range.div_ceil(block).clamp(1, STAGES);
        let operands = 2 * stages * strands * (of_a.halves(side, block) + of_b.halves(side, block));
        let sums = 4 * strands * side * (side + ROW_GAP);
        // A cluster is not cut: where the width has no room for one, a block sums all rounds.
        let room = at.clusters && rounds == MATES && (width == 0 || u32::from(width) >= MATES);
        let (cluster, mates) = if room { (MATES, "_mates") } else { (1, "") };
        let blocks = blocks(params.tiles, width / cluster as u16) * cluster;
        // In the kernel's words, b is turned where its columns do not lie side by side.
        let forms = (u8::from(of_a.turned), u8::from(!of_b.turned));
        let function = format!("pair_{side}_{strands}{mates}_{}{}", forms.0, forms.1);
        Ok(vec![Launch {
            shared: operands.max(sums),
            cluster,
            ..Launch::new("pair_mma", function, blocks, 0, THREADS, &params)
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 4 * 88 + 1080 + 24 + 72 + 24 + 32);
    }

    #[test]
    fn results_are_stored_eight_bytes_at_a_time_where_they_and_what_is_added_lie_so() {
        let lies = |address, strides: [i64; 3]| in_eights(address, &[strides[0], strides[1], strides[2], 0, 0, 0], 2);
        assert!(lies(1 << 12, [9600, 100, 1]), "rows of 200 bytes");
        assert!(lies(8, [0, 0, 1]), "one row for all");
        assert!(!lies(4, [9600, 100, 1]), "an address between");
        assert!(!lies(1 << 12, [9600, 98, 1]), "rows between");
        assert!(!lies(1 << 12, [9600, 1, 100]), "stored the other way round");
        let view = |strides: [i64; MAX_RANK]| DeviceView {
            address: 1 << 12,
            dtype: dtype_number(DType::F16),
            strides,
            ..DeviceView::default()
        };
        let product = |columns, y| Matrices {
            y,
            a: DeviceView::default(),
            b: DeviceView::default(),
            bias: DeviceView::default(),
            start: [0; MAX_RANK],
            outer: [Divisor::new(1); MAX_RANK],
            row_axis: 1,
            rows: 40,
            columns,
            depth: 64,
            tiles: [2, 4],
            count: 8,
        };
        let (rows, turned) = (view([4000, 100, 1, 0, 0, 0]), view([4000, 1, 40, 0, 0, 0]));
        let mut tail = Tail::zeroed();
        assert_eq!(ending(&product(100, rows), &tail), EIGHTS);
        assert_eq!(ending(&product(98, rows), &tail), 0, "half a run at the end");
        assert_eq!(ending(&product(100, turned), &tail), 0);
        assert_eq!(
            ending(
                &Matrices {
                    bias: rows,
                    ..product(100, rows)
                },
                &tail
            ),
            0
        );
        let added = TailOperand {
            address: 1 << 13,
            source: FROM_MEMORY,
            dtype: dtype_number(DType::F16),
            strides: [4000, 100, 1, 0, 0, 0],
        };
        tail.calls = 1;
        (tail.call[0].function, tail.call[0].b) = (binary_number(Binary::Add), added);
        assert_eq!(ending(&product(100, rows), &tail), EIGHTS | ADDS_EIGHTS);
        (tail.call[0].a, tail.call[0].b) = (added, TailOperand::default());
        assert_eq!(ending(&product(100, rows), &tail), EIGHTS | ADDS_EIGHTS | ADDS_FIRST);
        tail.call[0].a.strides[1] = 98;
        assert_eq!(ending(&product(100, rows), &tail), 0, "a tensor between");
        tail.call[0].a = added;
        tail.call[0].function = binary_number(Binary::Mul);
        assert_eq!(ending(&product(100, rows), &tail), 0, "a product");
        tail.calls = 2;
        tail.call[0].function = binary_number(Binary::Add);
        assert_eq!(ending(&product(100, rows), &tail), 0, "something behind the sum");
    }

    #[test]
    fn operands_are_read_along_their_runs() {
        let matrix = |address, strides: [i64; 2]| DeviceView {
            address,
            strides: [strides[0], strides[1], 0, 0, 0, 0],
            extents: [96, 96, 1, 1, 1, 1],
            ..DeviceView::default()
        };
        let read = |view: &DeviceView, first| {
            let it = Reading::of(view, 0, 1, first);
            (it.turned, it.wide)
        };
        assert_eq!(read(&matrix(256, [96, 1]), 3), (false, true));
        assert_eq!(read(&matrix(256, [1, 96]), 8), (true, true));
        assert_eq!(read(&matrix(256, [1, 96]), 3), (true, false), "a chunk between pieces");
        assert_eq!(read(&matrix(258, [96, 1]), 0), (false, false), "an address between pieces");
        assert_eq!(read(&matrix(256, [200, 2]), 0), (false, false), "no runs at all");
    }
}
