//! Parts, pieces and packed weights, multiplied on the host as the kernels do, against convolutions as they are defined.

use super::*;
use crate::backend::cpu::fixture;
use crate::backend::cuda::bind::tests::bench::{Bench, Form, shape};
use crate::plan::format::{self, Call, Operand, Rounding};
use crate::primitive::Window;
use crate::tensor::DType;

/// Small whole numbers, so that halves and sums are exact.
fn number(seed: u32, at: &[u32]) -> i64 {
    let mixed = at
        .iter()
        .fold(seed, |mixed, &i| (mixed ^ i).wrapping_mul(0x9e37_79b1).rotate_left(13));
    i64::from(mixed % 13) - 6
}

fn weight(at: &[u32]) -> i64 {
    number(7, at)
}

/// A pixel of the input; zero outside.
fn pixel(extents: [u32; 4], channel: u32, row: i64, column: i64) -> i64 {
    let inside = (0..i64::from(extents[1])).contains(&row) && (0..i64::from(extents[2])).contains(&column);
    if inside {
        number(1, &[channel, row as u32, column as u32])
    } else {
        0
    }
}

/// A convolution of one sample.
struct Case {
    from: [u32; 3],
    outputs: u32,
    groups: u32,
    window: Window,
    transposed: bool,
}

impl Case {
    fn new(from: [u32; 3], outputs: u32, groups: u32, kernel: [u32; 2], stride: [u32; 2]) -> Case {
        let mut window = Window::new(&kernel);
        window.stride[..2].copy_from_slice(&stride);
        Case {
            from,
            outputs,
            groups,
            window,
            transposed: false,
        }
    }

    fn transposed(self) -> Case {
        Case { transposed: true, ..self }
    }

    fn padded(mut self, begin: [u32; 2], end: [u32; 2]) -> Case {
        self.window.pad_begin[..2].copy_from_slice(&begin);
        self.window.pad_end[..2].copy_from_slice(&end);
        self
    }

    fn dilated(mut self, dilation: [u32; 2]) -> Case {
        self.window.dilation[..2].copy_from_slice(&dilation);
        self
    }

    /// Rows and columns of the output.
    fn sides(&self) -> [u32; 2] {
        [0, 1].map(|a| match self.transposed {
            true => {
                let full = (self.from[a + 1] - 1) * self.window.stride[a] + self.window.reach(a).unwrap();
                full - self.window.pad_begin[a] - self.window.pad_end[a]
            }
            false => self.window.output(a, self.from[a + 1]).unwrap(),
        })
    }

    fn operator(&self) -> (Bench, Operator) {
        let mut bench = Bench::new(3);
        let ([c, h, w], [rows, columns]) = (self.from, self.sides());
        let kernel = self.window.kernel;
        let (weights, primitive) = match self.transposed {
            true => (
                [c, self.outputs / self.groups],
                Primitive::ConvTranspose {
                    window: self.window,
                    groups: self.groups,
                },
            ),
            false => (
                [self.outputs, c / self.groups],
                Primitive::Conv {
                    window: self.window,
                    groups: self.groups,
                },
            ),
        };
        let x = bench.tensor(DType::F16, &[1, c, h, w], Form::Pixels);
        let weights = bench.constant(DType::F16, &[weights[0], weights[1], kernel[0], kernel[1]], &[0, 1, 2, 3]);
        let dims = [1, self.outputs, rows, columns];
        let y = bench.tensor(DType::F16, &dims, Form::Pixels);
        let call = Call {
            primitive,
            inputs: vec![Operand::View(x), Operand::View(weights)],
            dtype: DType::F16,
            shape: shape(&dims),
            rounding: Rounding::Rounded,
        };
        (bench, fixture::operator(format::Kernel::ConvParts, vec![call], vec![y]))
    }

    /// An output as the definition has it.
    fn defined(&self, extents: [u32; 4], output: u32, at: [u32; 2]) -> i64 {
        let [inputs, outputs] = [self.from[0], self.outputs].map(|channels| channels / self.groups);
        let (group, own) = (output / outputs, output % outputs);
        let window = &self.window;
        let mut sum = 0;
        for (i, j) in (0..window.kernel[0]).flat_map(|i| (0..window.kernel[1]).map(move |j| (i, j))) {
            let along = |a: usize, tap: u32| {
                let (place, pad, reach) = (
                    i64::from(at[a]),
                    i64::from(window.pad_begin[a]),
                    i64::from(tap * window.dilation[a]),
                );
                let stride = i64::from(window.stride[a]);
                match self.transposed {
                    true => ((place + pad - reach) % stride == 0).then(|| (place + pad - reach) / stride),
                    false => Some(place * stride + reach - pad),
                }
            };
            let (Some(row), Some(column)) = (along(0, i), along(1, j)) else {
                continue;
            };
            for c in 0..inputs {
                let value = match self.transposed {
                    true => weight(&[group * inputs + c, own, i, j]),
                    false => weight(&[output, c, i, j]),
                };
                sum += value * pixel(extents, group * inputs + c, row, column);
            }
        }
        sum
    }

    /// Every output of the parts is the defined one, and every output is of one part.
    fn check(&self) {
        let (bench, operator) = self.operator();
        let parted = product(&bench.plan, &operator).unwrap();
        let parts = parted.parts();
        let (entries, pieces) = tables(&parted, &parts).unwrap();
        let halves = pack_weights(&parted, &parts, self.transposed, &|at| weight(at) as f32);
        let half = |at: u64| f16::from_le_bytes([0, 1].map(|i| halves[at as usize * 2 + i])).to_f32() as i64;
        let extents = parted.product.x.extents;
        let ([rows, columns], [down, across], [walk_rows, walk_pixels]) = (self.sides(), parted.step(), parted.walk());
        let mut seen = 0;
        for entry in &entries {
            for (y, x) in (0..rows.div_ceil(down)).flat_map(|y| (0..columns.div_ceil(across)).map(move |x| (y, x))) {
                let at = [y * down + entry.row, x * across + entry.pixel];
                if at[0] >= rows || at[1] >= columns {
                    continue;
                }
                for n in 0..entry.channels {
                    let value = |k: u32| {
                        let piece = pieces[(entry.pieces + k / PIECE) as usize];
                        // Window rows of patches go on from pixel to pixel.
                        let channel = piece.channel + k % PIECE;
                        let column = i64::from(x * walk_pixels) + i64::from(piece.pixel) + i64::from(channel / extents[3]);
                        pixel(
                            extents,
                            channel % extents[3],
                            i64::from(y * walk_rows) + i64::from(piece.row),
                            column,
                        )
                    };
                    let row = entry.weights + u64::from(n) * u64::from(entry.pitch);
                    let sum: i64 = (0..entry.depth).map(|k| half(row + u64::from(k)) * value(k)).sum();
                    assert_eq!(sum, self.defined(extents, entry.channel + n, at), "{:?} {n} {at:?}", parted.cut);
                    seen += 1;
                }
            }
            let behind = (entry.pieces + entry.depth / PIECE) as usize..(entry.pieces + entry.pitch / PIECE) as usize;
            assert!(pieces[behind].iter().all(|p| *p == NOTHING));
        }
        assert_eq!(seen, rows * columns * self.outputs);
    }
}

#[test]
fn structs_have_the_sources_bytes() {
    assert_eq!((size_of::<PartEntry>(), size_of::<Piece>()), (40, 8));
    assert_eq!(size_of::<Params>(), 144 + size_of::<Epilogue>());
}

#[test]
fn grouped_convolutions_are_parts_of_some_groups() {
    Case::new([32, 7, 6], 32, 8, [3, 3], [1, 1]).padded([1, 1], [1, 1]).check();
    Case::new([48, 9, 8], 96, 6, [3, 3], [2, 2])
        .padded([2, 2], [2, 2])
        .dilated([2, 2])
        .check();
    Case::new([40, 5, 5], 40, 10, [3, 1], [1, 2]).padded([1, 0], [1, 0]).check();
    Case::new([16, 4, 4], 32, 16, [3, 3], [1, 1]).padded([1, 1], [0, 1]).check();
    Case::new([24, 3, 4], 24, 3, [1, 1], [1, 1]).check();
}

#[test]
fn transposed_convolutions_are_parts_of_a_phase() {
    Case::new([16, 4, 5], 8, 1, [2, 2], [2, 2]).transposed().check();
    Case::new([8, 5, 3], 12, 1, [4, 4], [2, 2])
        .padded([1, 1], [1, 1])
        .transposed()
        .check();
    Case::new([8, 4, 4], 4, 1, [3, 3], [2, 2])
        .padded([1, 1], [0, 0])
        .transposed()
        .check();
    Case::new([16, 3, 4], 16, 2, [5, 2], [4, 3])
        .padded([1, 0], [2, 0])
        .transposed()
        .check();
    Case::new([8, 4, 5], 8, 1, [3, 3], [2, 1])
        .padded([2, 1], [1, 2])
        .dilated([3, 2])
        .transposed()
        .check();
}

#[test]
fn patches_of_pictures_are_one_part() {
    Case::new([3, 32, 48], 8, 1, [16, 16], [16, 16]).check();
    Case::new([3, 17, 24], 8, 1, [8, 8], [8, 8]).check();
    Case::new([2, 12, 16], 8, 1, [3, 8], [2, 4]).check();
    // Windows that reach outside, and rows that begin between pieces.
    for case in [
        Case::new([3, 32, 48], 8, 1, [16, 16], [16, 16]).padded([0, 0], [0, 16]),
        Case::new([3, 28, 28], 8, 1, [14, 14], [14, 14]),
    ] {
        let (bench, operator) = case.operator();
        assert!(product(&bench.plan, &operator).is_err());
    }
}
