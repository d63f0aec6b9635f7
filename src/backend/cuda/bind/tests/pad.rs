//! Paddings: which kernel takes one, and what it does with its parameters, thread by thread.

use super::bench::{Bench, Form, Link, Random};
use super::*;
use crate::backend::cuda::bind::pad::{PadAxis, Params};
use crate::backend::taps;
use crate::limits::MAX_RANK;
use crate::plan::format::{Operand, Space, View};
use crate::primitive::{PadMode, Primitive, Scalar, Unary};
use DType::{F16, F32, I32, U8};

const THREADS: u32 = 256;
const PIECE: i64 = 16;
const BASE: u64 = 1 << 40;

/// A padding: extents, and elements before and behind along each axis.
#[derive(Clone, Copy, Debug)]
struct Pad<'a> {
    dtype: DType,
    x: &'a [u32],
    before: &'a [i32],
    behind: &'a [i32],
    mode: PadMode,
    /// Of the input and of the output.
    forms: [Form; 2],
}

const CONSTANT: PadMode = PadMode::Constant(Scalar(3.5));
const MODES: [PadMode; 4] = [CONSTANT, PadMode::Reflect, PadMode::Edge, PadMode::Wrap];

/// Halves of pictures padded by 1 on all sides.
fn picture(x: &[u32; 4], form: Form) -> Pad<'_> {
    Pad {
        dtype: F16,
        x,
        before: &[0, 0, 1, 1],
        behind: &[0, 0, 1, 1],
        mode: PadMode::Reflect,
        forms: [form; 2],
    }
}

/// Extents, and what is before and behind them.
type Other<'a> = (&'a [u32], &'a [i32], &'a [i32], PadMode);

impl Pad<'_> {
    fn operator(&self, bench: &mut Bench) -> Operator {
        let extent = |a: usize| u32::try_from(self.x[a] as i32 + self.before[a] + self.behind[a]).unwrap();
        let to: Vec<u32> = (0..self.x.len()).map(extent).collect();
        let x = bench.tensor(self.dtype, self.x, self.forms[0]);
        let y = bench.tensor(self.dtype, &to, self.forms[1]);
        let begin = std::array::from_fn(|a| self.before.get(a).copied().unwrap_or(0));
        bench.operator(Primitive::Pad { mode: self.mode, begin }, &[x], &[], &[y])
    }

    /// The kernel that takes all of it.
    fn function(&self) -> String {
        let mut bench = Bench::new(1);
        let operator = self.operator(&mut bench);
        let (kernel, packs) = bench.compile(&operator);
        let placed = Placed::new(&bench, &packs, BASE);
        let whole = Region::whole(operator.outputs[0].layout.shape);
        kernel.launches(&placed.addresses(&bench), &whole, 0).unwrap().remove(0).function
    }

    /// Runs the launches of chunks as the kernel does and compares all memory; the kernels.
    fn check(&self, random: &mut Random) -> BTreeSet<String> {
        let mut bench = Bench::new(random.next());
        let operator = self.operator(&mut bench);
        let (x, y) = (operator.calls[0].inputs[0], operator.outputs[0]);
        let Operand::View(x) = x else { unreachable!() };
        let expected = reference(&bench, self.mode, self.before, (&x, &y));
        let (kernel, packs) = bench.compile(&operator);
        let placed = Placed::new(&bench, &packs, BASE);
        let chunks = cuts(random, &operator, y.layout.shape);
        let at = placed.addresses(&bench);
        let launches: Vec<Launch> = chunks.iter().flat_map(|c| kernel.launches(&at, c, 0).unwrap()).collect();
        let mut memory = bench.arena.clone();
        for launch in &launches {
            assert_eq!(launch.unit, "pad", "{self:?}");
            let params: Params = bytemuck::pod_read_unaligned(&launch.params);
            let mut device = Device {
                memory: &mut memory,
                base: placed.arena.address,
            };
            device.run(&launch.function, &params, self.dtype.bytes() as i64);
        }
        assert!(
            memory == expected,
            "{self:?} by {:?}",
            launches.iter().map(|l| &l.function).collect::<Vec<_>>()
        );
        launches.into_iter().map(|l| l.function).collect()
    }
}

/// The arena with the padding's output, element by element.
fn reference(bench: &Bench, mode: PadMode, before: &[i32], (x, y): (&View, &View)) -> Vec<u8> {
    let mut memory = bench.arena.clone();
    let place = |view: &View, at: &[u32; MAX_RANK]| {
        let Space::Arena { offset } = bench.plan.buffers[view.buffer.index()].space else {
            unreachable!()
        };
        let element: i64 = (0..view.layout.shape.rank())
            .map(|a| i64::from(at[a]) * view.layout.stride(a))
            .sum();
        (offset as i64 + (view.origin as i64 + element) * view.dtype.bytes() as i64) as usize
    };
    let (from, to) = (x.layout.shape, y.layout.shape);
    let constant: Vec<u8> = match (mode, y.dtype) {
        (PadMode::Constant(v), F32) => v.0.to_le_bytes().to_vec(),
        (PadMode::Constant(v), F16) => half::f16::from_f32(v.0).to_le_bytes().to_vec(),
        (PadMode::Constant(v), I32) => (v.0 as i32).to_le_bytes().to_vec(),
        (PadMode::Constant(v), _) => vec![v.0 as u8],
        _ => Vec::new(),
    };
    for number in 0..to.elements() {
        let (mut rest, mut at) = (number, [0; MAX_RANK]);
        for axis in (0..to.rank()).rev() {
            at[axis] = (rest % u64::from(to.dim(axis))) as u32;
            rest /= u64::from(to.dim(axis));
        }
        let source = |a: usize| match a < to.rank() {
            true => taps::padded(mode, i64::from(at[a]) - i64::from(before[a]), i64::from(from.dim(a))),
            false => Some(0),
        };
        let sources: Vec<Option<u32>> = (0..MAX_RANK).map(source).collect();
        let bytes = match sources.iter().all(Option::is_some) {
            true => {
                let start = place(x, &std::array::from_fn(|a| sources[a].unwrap()));
                bench.arena[start..][..y.dtype.bytes() as usize].to_vec()
            }
            false => constant.clone(),
        };
        memory[place(y, &at)..][..bytes.len()].copy_from_slice(&bytes);
    }
    memory
}

/// What `kernels/pad.cu` does.
struct Device<'a> {
    memory: &'a mut [u8],
    base: u64,
}

fn source(p: &Params, axis: &PadAxis, position: u32, inside: &mut bool) -> i64 {
    let (at, last) = (position as i32 + axis.first, axis.limit as i32 - 1);
    i64::from(match p.mode {
        0 => {
            *inside &= at.cast_unsigned() < axis.limit;
            at
        }
        1 => at.abs().min(2 * last - at.abs()),
        2 => at.max(0).min(last),
        _ => at - (axis.around.divide(at as u32) * axis.limit) as i32,
    })
}

fn walk(p: &Params, first: usize, mut rest: u32) -> (i64, i64, bool) {
    let (mut from, mut to, mut inside) = (0, 0, true);
    for axis in &p.axes[first..p.used as usize] {
        let above = axis.positions.divide(rest);
        let at = rest - above * axis.positions.divisor;
        rest = above;
        from += source(p, axis, at, &mut inside) * i64::from(axis.x_step);
        to += i64::from(at) * i64::from(axis.y_step);
    }
    (from, to, inside)
}

impl Device<'_> {
    fn load(&self, address: i64, bytes: i64) -> Vec<u8> {
        assert_eq!(address % bytes, 0);
        self.memory[(address - self.base as i64) as usize..][..bytes as usize].to_vec()
    }

    fn store(&mut self, address: i64, value: &[u8]) {
        assert_eq!(address % value.len() as i64, 0);
        self.memory[(address - self.base as i64) as usize..][..value.len()].copy_from_slice(value);
    }

    fn run(&mut self, function: &str, p: &Params, element: i64) {
        if let Some(unit) = function.strip_prefix("pad_units_") {
            let (unit, run) = unit.strip_suffix("_fours").map_or((unit, 1), |unit| (unit, 4));
            assert_eq!(p.tiles, p.count.div_ceil(run * THREADS));
            (0..p.count).for_each(|index| self.unit(p, index, unit.parse().unwrap()));
        } else {
            assert_eq!(function, format!("pad_rows_{element}"));
            assert_eq!(p.tiles, p.count.div_ceil(THREADS));
            (0..p.count).for_each(|index| self.piece(p, index, element));
        }
    }

    fn unit(&mut self, p: &Params, index: u32, bytes: i64) {
        let (from, to, inside) = walk(p, 0, index);
        let outside: Vec<u8> = p.outside.to_le_bytes().into_iter().cycle().take(bytes as usize).collect();
        let value = if inside {
            self.load(p.x as i64 + from * bytes, bytes)
        } else {
            outside
        };
        self.store(p.y as i64 + to * bytes, &value);
    }

    fn piece(&mut self, p: &Params, index: u32, bytes: i64) {
        let (each, length) = (PIECE / bytes, i64::from(p.length));
        let line = p.pieces.divide(index);
        let (from, to, inside) = walk(p, 1, line);
        let (x, y) = (p.x as i64 + from * bytes, p.y as i64 + to * bytes);
        let first = i64::from(index - line * p.pieces.divisor) * each - y % PIECE / bytes;
        if first >= length {
            return;
        }
        let whole = first >= 0 && first + each <= length;
        let outside = p.outside.to_le_bytes()[..bytes as usize].to_vec();
        let element = |o: i64, inside: &mut bool| {
            let position = p.group.divide(o as u32);
            let group = i64::from(p.group.divisor);
            source(p, &p.axes[0], position, inside) * group + o - i64::from(position) * group
        };
        let mut values: Vec<Vec<u8>> = vec![outside.clone(); each as usize];
        if inside {
            let mut ends = whole;
            let (left, right) = (element(first.max(0), &mut ends), element((first + each).min(length) - 1, &mut ends));
            let address = x + left * bytes;
            let piece = address / PIECE * PIECE;
            let reads = if address % PIECE == 0 { PIECE } else { 2 * PIECE };
            if ends && right - left == each - 1 && piece >= p.low as i64 && piece + reads <= p.high as i64 {
                let found: Vec<u8> = (0..reads / PIECE).flat_map(|k| self.load(piece + k * PIECE, PIECE)).collect();
                let found = &found[(address % PIECE) as usize..][..PIECE as usize];
                values = found.chunks(bytes as usize).map(<[u8]>::to_vec).collect();
            } else {
                for i in 0..each {
                    let mut inside = true;
                    let at = element((first + i).clamp(0, length - 1), &mut inside);
                    values[i as usize] = if inside {
                        self.load(x + at * bytes, bytes)
                    } else {
                        outside.clone()
                    };
                }
            }
        }
        if whole {
            self.store(y + first * bytes, &values.concat());
            return;
        }
        for i in (0..each).filter(|i| (0..length).contains(&(first + i))) {
            self.store(y + (first + i) * bytes, &values[i as usize]);
        }
    }
}

#[test]
fn units_are_as_large_as_what_is_padded_leaves_them() {
    let pixels = |channels| picture(&[1, channels, 20, 30], Form::Pixels).function();
    assert_eq!([16, 20, 64].map(pixels), ["pad_units_16", "pad_units_8", "pad_units_16"]);
    assert_eq!([1, 3, 33].map(pixels), ["pad_rows_2"; 3], "rows of pixels");
    assert_eq!(picture(&[1, 96, 96, 320], Form::Pixels).function(), "pad_units_16_fours");
    assert_eq!(picture(&[1, 24, 20, 30], Form::Slice).function(), "pad_units_16");
    assert_eq!(
        picture(&[1, 24, 20, 30], Form::OddSlice).function(),
        "pad_units_2",
        "24 channels between others"
    );
    assert_eq!(picture(&[1, 40, 20, 30], Form::OddSlice).function(), "pad_rows_2");
    let narrow = picture(&[1, 8, 20, 10], Form::Plain);
    assert_eq!(narrow.function(), "pad_units_2", "rows of 12");
    assert_eq!(picture(&[1, 8, 20, 30], Form::Plain).function(), "pad_rows_2");
    let turned = Pad {
        forms: [Form::Pixels, Form::Plain],
        ..narrow
    };
    assert_eq!(turned.function(), "pad_units_2");
    let x = [1, 6, 20, 31];
    let floats = Pad {
        dtype: F32,
        ..picture(&x, Form::Plain)
    };
    assert_eq!(floats.function(), "pad_rows_4");
    let bytes = Pad { dtype: U8, ..floats };
    assert_eq!(bytes.function(), "pad_units_1", "33 bytes");
    let whole = Pad {
        x: &[1, 4, 20, 32],
        before: &[0, 1, 2, 0],
        behind: &[0, 0, 1, 0],
        ..picture(&x, Form::Plain)
    };
    assert_eq!(whole.function(), "pad_units_16", "no columns are padded");
}

#[test]
fn channels_are_padded_in_units_by_constants() {
    let pad = |mode, behind: &'static [i32; 4]| Pad {
        x: &[1, 24, 9, 10],
        before: &[0, 0, 0, 0],
        behind,
        mode,
        ..picture(&[1; 4], Form::Pixels)
    };
    assert_eq!(pad(CONSTANT, &[0, 8, 0, 0]).function(), "pad_units_16");
    assert_eq!(pad(CONSTANT, &[0, 4, 0, 0]).function(), "pad_units_8");
    assert_eq!(pad(PadMode::Edge, &[0, 8, 0, 0]).function(), "pad_rows_2");
}

#[test]
fn what_follows_a_padding_is_left_to_the_generic_kernel() {
    let mut bench = Bench::new(1);
    let operator = picture(&[1, 16, 20, 30], Form::Pixels).operator(&mut bench);
    let Operand::View(x) = operator.calls[0].inputs[0] else {
        unreachable!()
    };
    let tail = [Link::Of(Unary::Relu)];
    let operator = bench.operator(operator.calls[0].primitive, &[x], &tail, &operator.outputs);
    let (kernel, packs) = bench.compile(&operator);
    let placed = Placed::new(&bench, &packs, BASE);
    let whole = Region::whole(operator.outputs[0].layout.shape);
    let launch = kernel.launches(&placed.addresses(&bench), &whole, 0).unwrap().remove(0);
    assert_eq!(launch.function, "generic_remap");
}

#[test]
fn threads_find_the_elements_of_every_padding() {
    let mut random = Random(11);
    let mut functions = BTreeSet::new();
    let forms = [Form::Plain, Form::Pixels, Form::Slice, Form::OddSlice, Form::Reversed];
    for mode in MODES {
        for channels in [1, 3, 8, 16, 20, 33] {
            for (index, dtype) in [F16, F32, I32, U8].into_iter().enumerate() {
                let x = [2, channels, 7, [9, 33, 40, 70][index]];
                for (before, behind) in [
                    ([0, 0, 1, 1], [0, 0, 1, 1]),
                    ([0, 0, 3, 2], [0, 0, 0, 5]),
                    ([0, 0, -2, 3], [0, 0, 4, -4]),
                    ([0, 0, 0, -1], [0, 0, -3, -2]),
                    ([1, 0, 0, 0], [0, 0, 2, 0]),
                    ([0, 8, 0, 0], [0, 8, 0, 0]),
                    ([1, 2, 1, 0], [1, -1, 1, 1]),
                ] {
                    let fits = |a: usize| before[a] < x[a] as i32 && behind[a] < x[a] as i32;
                    let left = |a: usize| x[a] as i32 + before[a] + behind[a] > 0;
                    if !(0..4).all(left) || (mode == PadMode::Reflect && !(0..4).all(fits)) {
                        continue;
                    }
                    let form = forms[random.below(5) as usize];
                    let other = if random.below(3) == 0 {
                        forms[random.below(5) as usize]
                    } else {
                        form
                    };
                    let pad = Pad {
                        dtype,
                        x: &x,
                        before: &before,
                        behind: &behind,
                        mode,
                        forms: [form, other],
                    };
                    functions.extend(pad.check(&mut random));
                }
            }
        }
    }
    // Volumes, tokens, nothing but constants, and periods longer than the input.
    let others: [Other<'_>; 7] = [
        (&[2, 16, 3, 5, 6], &[0, 0, 1, 1, 1], &[0, 0, 1, 0, 2], PadMode::Reflect),
        (&[1, 2, 3, 2, 5, 40], &[0, 1, 0, 1, 1, 1], &[0, 0, 1, 1, 1, 0], PadMode::Edge),
        (&[2, 50, 24], &[0, 1, 0], &[0, 0, 0], CONSTANT),
        (&[2, 50, 24], &[0, 3, 8], &[0, 60, 0], CONSTANT),
        (&[40], &[90], &[95], PadMode::Wrap),
        (&[5, 3], &[-7, 0], &[9, 60], CONSTANT),
        (&[4, 0, 3], &[1, 5, 0], &[0, 2, 0], CONSTANT),
    ];
    for (x, before, behind, mode) in others {
        for dtype in [F16, F32, U8] {
            for forms in [[Form::Plain; 2], [Form::Pixels; 2], [Form::Reversed, Form::Plain]] {
                let pad = Pad {
                    dtype,
                    x,
                    before,
                    behind,
                    mode,
                    forms: if x.len() < 3 { [Form::Plain; 2] } else { forms },
                };
                functions.extend(pad.check(&mut random));
            }
        }
    }
    for function in [
        "pad_rows_1",
        "pad_rows_2",
        "pad_rows_4",
        "pad_units_1",
        "pad_units_2",
        "pad_units_4",
        "pad_units_8",
        "pad_units_16",
    ] {
        assert!(functions.contains(function), "{function} in {functions:?}");
    }
}
