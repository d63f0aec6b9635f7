//! The primitives as their definitions read, in f64, element by element.

use super::{coordinates, get};
use crate::backend::cpu::fixture::erf;
use crate::primitive::{Binary, Cell, Outside, PadMode, Places, PoolKind, Primitive, ReduceKind, Sample, Sampling, Unary, Window};
use crate::tensor::{DType, Shape, Tensor};

/// The outputs of `primitive` as numbers in C order: values, and for a maximum pooling the winners.
pub fn compute(primitive: &Primitive, inputs: &[&Tensor], output: Shape) -> Vec<Vec<f64>> {
    let x = inputs[0];
    let each = |f: &dyn Fn(&[usize]) -> f64| vec![coordinates(output).iter().map(|at| f(at)).collect::<Vec<f64>>()];
    match *primitive {
        Primitive::Conv { window, groups } => each(&|at| conv(&window, groups as usize, inputs, output, at)),
        Primitive::ConvTranspose { window, groups } => vec![transposed(&window, groups as usize, inputs, output)],
        Primitive::MatMul => each(&|at| {
            let r = at.len();
            let bias = inputs.get(2).map_or(0.0, |c| get(c, at));
            let k = x.shape().dim(r - 1) as usize;
            let a = |k: usize| [&at[..r - 1], &[k]].concat();
            let b = |k: usize| [&at[..r - 2], &[k, at[r - 1]]].concat();
            bias + (0..k).map(|k| get(x, &a(k)) * get(inputs[1], &b(k))).sum::<f64>()
        }),
        Primitive::Unary(kind) => each(&|at| unary(kind, get(x, at))),
        Primitive::Binary(kind) => each(&|at| binary(kind, get(x, at), get(inputs[1], at))),
        Primitive::Copy => each(&|at| get(x, at)),
        Primitive::Pool { kind, window } => pool(kind, &window, x, output),
        Primitive::Reduce { kind, axes } => each(&|at| {
            let inside = |c: &Vec<usize>| (0..at.len()).all(|a| axes & (1 << a) != 0 || c[a] == at[a]);
            let values: Vec<f64> = coordinates(x.shape()).iter().filter(|c| inside(c)).map(|c| get(x, c)).collect();
            match kind {
                ReduceKind::Sum => values.iter().sum(),
                ReduceKind::Mean => values.iter().sum::<f64>() / values.len() as f64,
                ReduceKind::Norm => values.iter().map(|x| x * x).sum::<f64>().sqrt(),
                ReduceKind::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            }
        }),
        Primitive::Softmax { axis } => each(&|at| {
            let along = |i: usize| {
                let mut c = at.to_vec();
                c[usize::from(axis)] = i;
                get(x, &c).exp()
            };
            get(x, at).exp() / (0..output.dim(usize::from(axis)) as usize).map(along).sum::<f64>()
        }),
        Primitive::Expectation { axis } => each(&|at| {
            let along = |i: usize| {
                let mut c = at.to_vec();
                c[usize::from(axis)] = i;
                get(x, &c).exp()
            };
            let count = x.shape().dim(usize::from(axis)) as usize;
            let total: f64 = (0..count).map(along).sum();
            (0..count).map(|i| along(i) * get(inputs[1], &[i])).sum::<f64>() / total
        }),
        Primitive::Normalise { axis, epsilon } | Primitive::RmsNormalise { axis, epsilon } => each(&|at| {
            let n = output.dim(usize::from(axis)) as usize;
            let along = |i: usize| {
                let mut c = at.to_vec();
                c[usize::from(axis)] = i;
                get(x, &c)
            };
            let centred = matches!(primitive, Primitive::Normalise { .. });
            let mean = if centred { (0..n).map(along).sum::<f64>() / n as f64 } else { 0.0 };
            let variance = (0..n).map(|i| (along(i) - mean).powi(2)).sum::<f64>() / n as f64;
            (get(x, at) - mean) / (variance + f64::from(epsilon.0)).sqrt()
        }),
        Primitive::GroupNormalise { groups, epsilon } => each(&|at| {
            let each = output.dim(1) as usize / groups as usize;
            let inside = |c: &Vec<usize>| c[0] == at[0] && c[1] / each == at[1] / each;
            let values: Vec<f64> = coordinates(x.shape()).iter().filter(|c| inside(c)).map(|c| get(x, c)).collect();
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
            (get(x, at) - mean) / (variance + f64::from(epsilon.0)).sqrt()
        }),
        Primitive::Attention { scale } => each(&|at| {
            let (keys, values) = (inputs[1], inputs[2]);
            let (row, column) = (at.len() - 2, at.len() - 1);
            let (depth, count) = (keys.shape().dim(row) as usize, keys.shape().dim(column) as usize);
            let pick = |of: &Tensor, i: usize, j: usize| {
                let mut c = at.to_vec();
                (c[row], c[column]) = (i, j);
                get(of, &c)
            };
            let score = |k: usize| -> f64 { (0..depth).map(|d| pick(x, at[row], d) * pick(keys, d, k)).sum() };
            let mask = |k: usize| inputs.get(3).map_or(0.0, |m| pick(m, at[row], k));
            let weight = |k: usize| (f64::from(scale.0) * score(k) + mask(k)).exp();
            let total: f64 = (0..count).map(weight).sum();
            (0..count).map(|k| weight(k) * pick(values, k, at[column])).sum::<f64>() / total
        }),
        Primitive::Pad { mode, begin } => each(&|at| {
            let mut c = vec![];
            for (axis, &i) in at.iter().enumerate() {
                let n = i64::from(x.shape().dim(axis));
                let mut i = i as i64 - i64::from(begin[axis]);
                while !(0..n).contains(&i) {
                    i = match mode {
                        PadMode::Constant(value) => return f64::from(value.0),
                        PadMode::Edge => i.clamp(0, n - 1),
                        PadMode::Wrap => i + if i < 0 { n } else { -n },
                        PadMode::Reflect if i < 0 => -i,
                        PadMode::Reflect => 2 * (n - 1) - i,
                    };
                }
                c.push(i as usize);
            }
            get(x, &c)
        }),
        Primitive::Gather { axis } => each(&|at| {
            let (axis, q) = (usize::from(axis), inputs[1].shape().rank());
            let n = i64::from(x.shape().dim(axis));
            let i = get(inputs[1], &at[axis..axis + q]) as i64;
            let i = (if i < 0 { i + n } else { i }).clamp(0, n - 1) as usize;
            get(x, &[&at[..axis], &[i], &at[axis + q..]].concat())
        }),
        Primitive::Lstm { reverse } => recurrent(Cell::Lstm, reverse, inputs, output),
        Primitive::Gru { reverse } => recurrent(Cell::Gru, reverse, inputs, output),
        Primitive::Sample(sample) => each(&|at| sampled(&sample, inputs, at)),
        Primitive::Sources { common } => each(&|at| {
            let last = (0..x.len()).rev().find(|&k| get(x, &[k]) == at[0] as f64);
            let first = if common { 1 } else { output.dim(0) as usize };
            last.map_or(if common { 0 } else { at[0] }, |k| first + k) as f64
        }),
        _ => panic!("no reference for {primitive:?}"),
    }
}

/// Where a row and a column of the input are sampled, and what of it.
fn sampled(sample: &Sample, inputs: &[&Tensor], at: &[usize]) -> f64 {
    if let Places::Sums { align_corners } = sample.places {
        let each = Sample {
            places: Places::Grid { align_corners },
            ..*sample
        };
        let start = inputs.get(3).map_or(0.0, |s| get(s, at));
        let points = 0..inputs[1].shape().dim(2) as usize;
        let terms = points.map(|p| get(inputs[2], &[at[0], 0, at[2], p]) * sampled(&each, &inputs[..2], &[at[0], at[1], at[2], p]));
        return start + terms.sum::<f64>();
    }
    let x = inputs[0];
    let [channels, high, wide] = [1, 2, 3].map(|a| x.shape().dim(a) as usize);
    let (channel, align, places, factor) = match sample.places {
        Places::Grid { align_corners } => {
            let along = |axis: usize, extent: usize| {
                let (g, extent) = (get(inputs[1], &[at[0], at[2], at[3], axis]), extent as f64);
                if align_corners {
                    (g + 1.0) / 2.0 * (extent - 1.0)
                } else {
                    ((g + 1.0) * extent - 1.0) / 2.0
                }
            };
            (at[1], align_corners, [along(1, high), along(0, wide)], 1.0)
        }
        Places::Sums { .. } => unreachable!("summed above"),
        Places::Taps { window, groups, parts } => {
            let (taps, each) = (window.taps() as usize, channels / parts as usize);
            let (part, tap) = (at[1] / each / taps, at[1] / each % taps);
            let channel = part * each + at[1] % each;
            let entry = channel / (channels / groups as usize) * taps + tap;
            let (columns, factors) = (window.kernel[1] as usize, inputs.get(2));
            let along = |axis: usize, inside: usize| {
                let first = at[axis + 2] as f64 * f64::from(window.stride[axis]) - f64::from(window.pad_begin[axis]);
                first + inside as f64 * f64::from(window.dilation[axis]) + get(inputs[1], &[at[0], 2 * entry + axis, at[2], at[3]])
            };
            let factor = factors.map_or(1.0, |f| get(f, &[at[0], entry, at[2], at[3]]));
            (channel, false, [along(0, tap / columns), along(1, tap % columns)], factor)
        }
    };
    let border = |extent: usize| {
        if align {
            (0.0, extent as f64 - 1.0)
        } else {
            (-0.5, extent as f64 - 0.5)
        }
    };
    let reflect = |mut p: f64, extent: usize| {
        let (low, high) = border(extent);
        while low < high && !(low..=high).contains(&p) {
            p = if p < low { 2.0 * low - p } else { 2.0 * high - p };
        }
        p.clamp(low, high)
    };
    let rounded = |p: f64| {
        if sample.sampling == Sampling::Nearest {
            p.round_ties_even()
        } else {
            p
        }
    };
    let placed = |p: f64, extent: usize| {
        let (low, high) = border(extent);
        match sample.outside {
            Outside::Border if p < low || p > high => p.clamp(0.0, extent as f64 - 1.0),
            Outside::Reflection => reflect(p, extent),
            _ => p,
        }
    };
    let [row, column] = [(places[0], high), (places[1], wide)].map(|(p, extent)| placed(rounded(p), extent));
    let element = |r: i64, c: i64| {
        let inside = |i: i64, extent: usize| match sample.outside {
            Outside::Zero => usize::try_from(i).ok().filter(|&i| i < extent),
            Outside::Border => Some(i.clamp(0, extent as i64 - 1) as usize),
            Outside::Reflection => Some(reflect(i as f64, extent) as usize),
        };
        let found = inside(r, high).zip(inside(c, wide));
        found.map_or(0.0, |(r, c)| get(x, &[at[0], channel, r, c]))
    };
    let keys = |d: f64| {
        let (a, d) = (-0.75, d.abs());
        match d {
            d if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
            d if d < 2.0 => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
            _ => 0.0,
        }
    };
    let weight = |d: f64| match sample.sampling {
        Sampling::Nearest => f64::from(u8::from(d == 0.0)),
        Sampling::Linear => (1.0 - d.abs()).max(0.0),
        Sampling::Cubic => keys(d),
    };
    let near = |p: f64| p.floor() as i64 - 1..p.floor() as i64 + 3;
    let terms = near(row).flat_map(|r| near(column).map(move |c| (r, c)));
    let sum: f64 = terms
        .map(|(r, c)| weight(row - r as f64) * weight(column - c as f64) * element(r, c))
        .sum();
    factor * sum
}

/// Every step as the definition reads; h is rounded to the element type, as it is an output.
fn recurrent(cell: Cell, reverse: bool, inputs: &[&Tensor], output: Shape) -> Vec<Vec<f64>> {
    let [steps, rows, hidden] = [0, 1, 2].map(|axis| output.dim(axis) as usize);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let rounded = |x: f64| match inputs[0].dtype() {
        DType::F16 => half::f16::from_f64(x).to_f64(),
        _ => x,
    };
    let (mut y, mut last) = (vec![0.0; steps * rows * hidden], vec![]);
    for row in 0..rows {
        let state = |k: usize| {
            (0..hidden)
                .map(|j| inputs.get(k).map_or(0.0, |s| get(s, &[row, j])))
                .collect::<Vec<_>>()
        };
        let (mut h, mut c) = (state(2), state(3));
        for step in 0..steps {
            let t = if reverse { steps - 1 - step } else { step };
            let gate = |gate: usize, j: usize| {
                let recurrence = |(k, h): (usize, &f64)| h * get(inputs[1], &[gate * hidden + j, k]);
                get(inputs[0], &[t, row, gate * hidden + j]) + h.iter().enumerate().map(recurrence).sum::<f64>()
            };
            let next = |j: usize| {
                if cell == Cell::Gru {
                    let (z, fresh) = (sigmoid(gate(0, j)), (sigmoid(gate(1, j)) * gate(2, j) + gate(3, j)).tanh());
                    return (rounded((1.0 - z) * fresh + z * h[j]), 0.0);
                }
                let c = sigmoid(gate(2, j)) * c[j] + sigmoid(gate(0, j)) * gate(3, j).tanh();
                (rounded(sigmoid(gate(1, j)) * c.tanh()), c)
            };
            (h, c) = (0..hidden).map(next).unzip();
            y[(t * rows + row) * hidden..][..hidden].copy_from_slice(&h);
        }
        last.extend(c);
    }
    vec![y, last]
}

fn taps(window: &Window) -> Vec<Vec<usize>> {
    coordinates(Shape::new(&window.kernel[..usize::from(window.axes)]).unwrap())
}

/// Input coordinate under a tap, if it is inside.
fn under(window: &Window, input: Shape, at: &[usize], tap: &[usize]) -> Option<Vec<usize>> {
    let along = |a: usize| {
        let i = at[a + 2] as i64 * i64::from(window.stride[a]) + tap[a] as i64 * i64::from(window.dilation[a]);
        let i = i - i64::from(window.pad_begin[a]);
        (0..i64::from(input.dim(a + 2))).contains(&i).then_some(i as usize)
    };
    (0..tap.len()).map(along).collect()
}

fn conv(window: &Window, groups: usize, inputs: &[&Tensor], output: Shape, at: &[usize]) -> f64 {
    let (x, w) = (inputs[0], inputs[1]);
    let depth = w.shape().dim(1) as usize;
    let group = at[1] / (output.dim(1) as usize / groups);
    let mut sum = inputs.get(2).map_or(0.0, |b| get(b, &at[1..2]));
    for tap in taps(window) {
        let Some(place) = under(window, x.shape(), at, &tap) else {
            continue;
        };
        for c in 0..depth {
            let from = [&[at[0], group * depth + c], &place[..]].concat();
            sum += get(x, &from) * get(w, &[&[at[1], c], &tap[..]].concat());
        }
    }
    sum
}

/// As the definition scatters: every input adds to the outputs its taps land on.
fn transposed(window: &Window, groups: usize, inputs: &[&Tensor], output: Shape) -> Vec<f64> {
    let (x, w) = (inputs[0], inputs[1]);
    let all = coordinates(output);
    let mut sums: Vec<f64> = all.iter().map(|at| inputs.get(2).map_or(0.0, |b| get(b, &at[1..2]))).collect();
    let wide = w.shape().dim(1) as usize;
    let depth = x.shape().dim(1) as usize / groups;
    for at in coordinates(x.shape()) {
        for tap in taps(window) {
            let lands = |a: usize| {
                let o = at[a + 2] as i64 * i64::from(window.stride[a]) + tap[a] as i64 * i64::from(window.dilation[a]);
                let o = o - i64::from(window.pad_begin[a]);
                (0..i64::from(output.dim(a + 2))).contains(&o).then_some(o as usize)
            };
            let Some(place) = (0..tap.len()).map(lands).collect::<Option<Vec<usize>>>() else {
                continue;
            };
            for o in 0..wide {
                let to = [&[at[0], at[1] / depth * wide + o], &place[..]].concat();
                let index = all.iter().position(|c| *c == to).unwrap();
                sums[index] += get(x, &at) * get(w, &[&[at[1], o], &tap[..]].concat());
            }
        }
    }
    sums
}

fn pool(kind: PoolKind, window: &Window, x: &Tensor, output: Shape) -> Vec<Vec<f64>> {
    let (mut values, mut winners) = (vec![], vec![]);
    for at in coordinates(output) {
        let inside: Vec<Vec<usize>> = taps(window)
            .iter()
            .filter_map(|tap| under(window, x.shape(), &at, tap))
            .map(|place| [&at[..2], &place[..]].concat())
            .collect();
        match kind {
            PoolKind::Average { count_pad } => {
                let padded = |a: usize| {
                    let first = at[a + 2] as i64 * i64::from(window.stride[a]) - i64::from(window.pad_begin[a]);
                    let limit = i64::from(x.shape().dim(a + 2)) + i64::from(window.pad_end[a]);
                    let tap = |k: u32| first + i64::from(k) * i64::from(window.dilation[a]);
                    (0..window.kernel[a]).filter(|&k| tap(k) < limit).count()
                };
                let counted: usize = (0..usize::from(window.axes)).map(padded).product();
                let count = if count_pad { counted } else { inside.len() };
                values.push(inside.iter().map(|c| get(x, c)).sum::<f64>() / count as f64);
            }
            PoolKind::Max { column_major } => {
                let first = inside.iter().rev().max_by(|a, b| get(x, a).total_cmp(&get(x, b))).unwrap();
                values.push(get(x, first));
                let extents: Vec<usize> = x.shape().dims()[2..].iter().map(|&d| d as usize).collect();
                let plane = first[0] * x.shape().dim(1) as usize + first[1];
                let spatial: Vec<(usize, usize)> = first[2..].iter().copied().zip(extents.iter().copied()).collect();
                let flat = |axes: &mut dyn Iterator<Item = (usize, usize)>| axes.fold(0, |flat, (i, d)| flat * d + i);
                let within = match column_major {
                    true => flat(&mut spatial.into_iter().rev()),
                    false => flat(&mut spatial.into_iter()),
                };
                winners.push((plane * extents.iter().product::<usize>() + within) as f64);
            }
        }
    }
    vec![values, winners]
}

fn unary(kind: Unary, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match kind {
        Unary::Relu => x.max(0.0),
        Unary::LeakyRelu(alpha) => x.max(0.0) + f64::from(alpha.0) * x.min(0.0),
        Unary::Clip(low, high) => x.max(f64::from(low.0)).min(f64::from(high.0)),
        Unary::Sigmoid => sigmoid(x),
        Unary::HardSigmoid(alpha, beta) => (f64::from(alpha.0) * x + f64::from(beta.0)).clamp(0.0, 1.0),
        Unary::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        Unary::Silu => x * sigmoid(x),
        Unary::Tanh => x.tanh(),
        Unary::Exp => x.exp(),
        Unary::Sqrt => x.sqrt(),
        Unary::Neg => -x,
        Unary::Erf => erf(x),
        Unary::Gelu => x / 2.0 * (1.0 + erf(x / 2f64.sqrt())),
        Unary::GeluTanh => x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
        Unary::Round => x.round_ties_even(),
        Unary::Log => x.ln(),
        Unary::Abs => x.abs(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
    }
}

fn binary(kind: Binary, a: f64, b: f64) -> f64 {
    match kind {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Pow => a.powf(b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::PRelu if a < 0.0 => a * b,
        Binary::PRelu => a,
    }
}
