//! Windows, reductions and conversions.

use super::*;

#[test]
fn depthwise_and_pooling_equal_the_scalar_loops() {
    let mut r = Lcg(5);
    for round in 0..150 {
        let (kh, kw) = [(3, 3), (5, 5), (1, 3), (3, 2), (7, 7)][r.below(5)];
        let stride = 1 + r.below(3);
        let dilation = if r.below(3) == 0 { 2 } else { 1 };
        let pad = r.below(kw + 1);
        let c = 1 + r.below(70);
        let in_w = 1 + r.below(40);
        let pixel_stride = c + r.below(3);
        let reach = (kw - 1) * dilation + 1;
        if in_w + 2 * pad < reach {
            continue;
        }
        let n = (in_w + 2 * pad - reach) / stride + 1;
        let input: Vec<Vec<f32>> = (0..kh).map(|_| r.floats(in_w * pixel_stride)).collect();
        let rows: Vec<*const f32> = input
            .iter()
            .enumerate()
            .map(|(i, row)| if (round + i) % 4 == 0 { core::ptr::null() } else { row.as_ptr() })
            .collect();
        let weights = r.floats(c * kh * kw);
        let bias = r.floats(c);
        let mut packed = vec![f32::NAN; depthwise_packed_len(kh * kw, c)];
        pack_depthwise(&weights, kh * kw, c, &mut packed);
        // Every value inside the window of pixel `p`, channel `ch`, with its tap.
        let inside = |p: usize, ch: usize| {
            let mut out = Vec::new();
            for ky in (0..kh).filter(|&ky| !rows[ky].is_null()) {
                for kx in 0..kw {
                    let x = (p * stride + kx * dilation) as isize - pad as isize;
                    if x >= 0 && (x as usize) < in_w {
                        out.push((ky * kw + kx, input[ky][x as usize * pixel_stride + ch]));
                    }
                }
            }
            out
        };
        type PerOutput<'a> = &'a dyn Fn(usize, &[(usize, f32)]) -> f32;
        let scalar = |f: PerOutput<'_>| -> Vec<f32> { (0..n * c).map(|i| f(i % c, &inside(i / c, i % c))).collect() };
        let conv = scalar(&|ch, values| {
            (0..kh * kw).fold(bias[ch], |acc, tap| {
                let x = values.iter().find(|v| v.0 == tap).map_or(0.0, |v| v.1);
                x.mul_add(weights[ch * kh * kw + tap], acc)
            })
        });
        let sum = |values: &[(usize, f32)]| values.iter().fold(0.0, |acc: f32, v| acc + v.1);
        let pools = [
            (PoolKind::Max, scalar(&|_, v| v.iter().fold(f32::NEG_INFINITY, |m, v| m.max(v.1)))),
            (PoolKind::AverageInside, scalar(&|_, v| sum(v) / v.len() as f32)),
            (PoolKind::AverageOver(9.0), scalar(&|_, v| sum(v) / 9.0)),
        ];
        let window = Window {
            rows: rows.as_ptr(),
            kh,
            kw,
            in_w,
            pixel_stride,
            stride,
            dilation,
            pad_left: pad,
        };
        let steps = Steps::new(&mut r, n, c);
        let out_stride = c + 1;
        // Whole rows, and rows cut in two.
        let cut = r.below(n + 1);
        for list in steps.lists() {
            let mut want = conv.clone();
            apply_alone(&list, &mut want, n, c);
            for kernels in kernels() {
                let mut got = vec![77.0; n * out_stride];
                let args = Depthwise {
                    window,
                    weights: packed.as_ptr(),
                    weight_pitch: c.next_multiple_of(16),
                    bias: bias.as_ptr(),
                    c,
                    ox: 0,
                    n,
                    out: got.as_mut_ptr(),
                    out_stride,
                    steps: &list,
                };
                // SAFETY: every pointer is set up above for `n` pixels and `c` channels.
                unsafe { kernels.depthwise(&args) };
                check_rows(kernels, &got, &want, n, c);
                if list.iter().all(|s| matches!(s, Step::Unary(_))) {
                    got.fill(77.0);
                    let out = got.as_mut_ptr();
                    // SAFETY: the same call in two parts.
                    unsafe {
                        kernels.depthwise(&Depthwise { n: cut, out, ..args });
                        let out = out.add(cut * out_stride);
                        kernels.depthwise(&Depthwise {
                            ox: cut,
                            n: n - cut,
                            out,
                            ..args
                        });
                    }
                    check_rows(kernels, &got, &want, n, c);
                }
                for (kind, plain) in &pools {
                    let mut want = plain.clone();
                    apply_alone(&list, &mut want, n, c);
                    let out = got.as_mut_ptr();
                    let kind = *kind;
                    let args = Pool {
                        window,
                        kind,
                        c,
                        ox: 0,
                        n,
                        out,
                        out_stride,
                        steps: &list,
                    };
                    // SAFETY: every pointer is set up above for `n` pixels and `c` channels.
                    unsafe { kernels.pool(&args) };
                    check_rows(kernels, &got, &want, n, c);
                }
            }
        }
    }
}

#[test]
fn reductions_keep_sixteen_partials() {
    let mut r = Lcg(6);
    for n in [0usize, 1, 5, 15, 16, 17, 33, 64, 100, 1001] {
        let x = r.floats(n);
        let mut partial = [0.0f32; 16];
        for (i, x) in x.iter().enumerate() {
            partial[i % 16] += x;
        }
        for half in [8, 4, 2, 1] {
            for i in 0..half {
                partial[i] += partial[i + half];
            }
        }
        let max = x.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x));
        let mut want = vec![0.0; n];
        Kernels::for_isa(Isa::Portable).expect("always there").softmax(&x, &mut want);
        let exact: f64 = x.iter().map(|x| f64::from(x - max).exp()).sum();
        for (x, y) in x.iter().zip(&want) {
            assert!((f64::from(x - max).exp() / exact - f64::from(*y)).abs() < 1e-6);
        }
        for k in kernels() {
            assert_eq!(k.sum(&x).to_bits(), partial[0].to_bits(), "{}", k.isa().name());
            assert_eq!(k.max(&x).to_bits(), max.to_bits());
            let mut got = vec![0.0; n];
            k.softmax(&x, &mut got);
            assert_eq!(bits(&got), bits(&want), "{}", k.isa().name());
            let mut spoilt = x.clone();
            spoilt.push(f32::NAN);
            assert_eq!(k.max(&spoilt).to_bits(), max.to_bits());
        }
    }
}

#[test]
fn short_rows_that_are_worked_on_together_have_the_bits_of_one_alone() {
    let mut r = Lcg(11);
    for (n, gap) in [(1, 0), (2, 1), (3, 0), (4, 0), (5, 2), (8, 0), (9, 0)] {
        let (rows, stride) = (37, n + gap);
        let mut x = r.floats(rows * stride);
        (x[3 * stride], x[20 * stride]) = (f32::NAN, f32::INFINITY);
        for k in kernels() {
            let mut want = vec![0.0f32; rows * stride];
            for (x, y) in x.chunks_exact(stride).zip(want.chunks_exact_mut(stride)) {
                k.softmax(&x[..n], &mut y[..n]);
            }
            let mut got = vec![0.0f32; rows * stride];
            // SAFETY: the slices hold `rows` rows of `n` floats, `stride` apart.
            unsafe { k.softmax_rows(x.as_ptr(), got.as_mut_ptr(), rows, n, stride) };
            assert_eq!(bits(&got), bits(&want), "{} {n}", k.isa().name());
        }
    }
}

#[test]
fn columns_and_rows_are_summed_in_order() {
    let mut r = Lcg(7);
    for (rows, c) in [(1, 1), (7, 3), (5, 16), (9, 37), (3, 130)] {
        let stride = c + 2;
        let x = r.floats(rows * stride);
        let mut total = vec![0.5f32; c];
        let mut soft = vec![0.0f32; rows * stride];
        for row in x.chunks_exact(stride) {
            for (t, x) in total.iter_mut().zip(row) {
                *t += x;
            }
        }
        for ch in 0..c {
            let column: Vec<f32> = x.iter().skip(ch).step_by(stride).copied().collect();
            let max = column.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x));
            let mut e: Vec<f32> = column.iter().map(|x| x - max).collect();
            Kernels::get().unary_in_place(Unary::Exp, &mut e);
            let sum = e.iter().fold(0.0f32, |s, x| s + x);
            for (r, e) in e.iter().enumerate() {
                soft[r * stride + ch] = e / sum;
            }
        }
        for k in kernels() {
            let mut got = vec![0.5f32; c];
            let mut columns = vec![0.0f32; rows * stride];
            // SAFETY: the slices hold `rows` rows of `c` floats, `stride` apart.
            unsafe {
                k.add_rows(x.as_ptr(), stride, rows, c, got.as_mut_ptr());
                k.softmax_columns(x.as_ptr(), columns.as_mut_ptr(), rows, c, stride);
            }
            assert_eq!(bits(&got), bits(&total), "{}", k.isa().name());
            assert_eq!(bits(&columns), bits(&soft), "{}", k.isa().name());
        }
    }
}

#[test]
fn argmax_takes_the_first_and_no_nan() {
    let mut r = Lcg(8);
    for c in [1usize, 2, 3, 16, 19, 21, 40, 256] {
        let x: Vec<f32> = (0..c * 30)
            .map(|_| match r.below(8) {
                0 => f32::NAN,
                1 => f32::NEG_INFINITY,
                _ => r.below(4) as f32,
            })
            .collect();
        let want: Vec<i32> = x
            .chunks_exact(c)
            .map(|row| {
                let mut best = (0, f32::NEG_INFINITY);
                let mut found = false;
                for (i, &v) in row.iter().enumerate() {
                    if v > best.1 || (!found && v == best.1) {
                        best = (i as i32, v);
                        found = true;
                    }
                }
                best.0
            })
            .collect();
        for k in kernels() {
            let (mut words, mut bytes) = (vec![0i32; 30], vec![0u8; 30]);
            k.argmax(&x, c, &mut words);
            k.argmax_u8(&x, c, &mut bytes);
            assert_eq!(words, want, "{} {c}", k.isa().name());
            assert!(bytes.iter().zip(&want).all(|(b, w)| i32::from(*b) == *w));
        }
    }
}

#[test]
fn bytes_become_floats() {
    let mut r = Lcg(9);
    for c in 1..=4 {
        for pixels in [0, 1, 5, 16, 17, 50] {
            let src: Vec<u8> = (0..pixels * c).map(|_| r.next() as u8).collect();
            let (mean, inv) = (r.floats(c), r.floats(c));
            for swap in [false, true] {
                let want: Vec<f32> = (0..pixels * c)
                    .map(|i| {
                        let ch = i % c;
                        let from = if swap && c >= 3 && ch != 1 && ch < 3 { 2 - ch } else { ch };
                        (f32::from(src[i - ch + from]) - mean[ch]) * inv[ch]
                    })
                    .collect();
                for k in kernels() {
                    let mut got = vec![0.0; want.len()];
                    k.u8_to_f32(&src, &mean, &inv, swap, &mut got);
                    assert_eq!(bits(&got), bits(&want), "{} {c} {swap}", k.isa().name());
                }
            }
        }
    }
}

#[test]
fn half_precision_rounds_as_the_crate_does() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    let mut r = Lcg(10);
    let mut floats: Vec<f32> = (0..100_003).map(|_| f32::from_bits(r.next())).collect();
    floats.extend((0..100_000).map(|_| r.float() * 1e5));
    floats.extend((0..100_000).map(|_| r.float() * 1e-6));
    // Halfway between two neighbours.
    floats.extend((0..0x7c00u16).map(|i| (f16::from_bits(i).to_f32() + f16::from_bits(i + 1).to_f32()) / 2.0));
    for k in kernels() {
        let mut wide = vec![0.0; all.len() - 1];
        k.f16_to_f32(&all[1..], &mut wide);
        for (h, w) in all[1..].iter().zip(&wide) {
            assert_eq!(w.to_bits(), h.to_f32_const().to_bits(), "{}", k.isa().name());
        }
        let mut narrow = vec![f16::ZERO; floats.len()];
        k.f32_to_f16(&floats, &mut narrow);
        for (f, h) in floats.iter().zip(&narrow) {
            assert_eq!(h.to_bits(), f16::from_f32_const(*f).to_bits(), "{} {f}", k.isa().name());
        }
    }
}

#[test]
fn bilinear_blends_in_order() {
    let mut r = Lcg(11);
    for (c, gap) in [(1usize, 1), (3, 1), (4, 0), (4, 1), (16, 1), (19, 1), (40, 1)] {
        let (top, bottom) = (r.floats(6 * c), r.floats(6 * c));
        let left = [0u32, 1, 2, 4, 5];
        let right = [1u32, 2, 3, 5, 5];
        let across = [[0.75f32, 0.25], [0.3, 0.7], [0.9, 0.1], [0.001, 0.999], [1.0, 0.0]];
        let down = [0.7f32, 0.3];
        let mut want = Vec::new();
        for p in 0..5 {
            let (l, h) = (left[p] as usize * c, right[p] as usize * c);
            let ([gx, fx], [gy, fy]) = (across[p], down);
            for i in 0..c {
                let y = gy * gx * top[l + i];
                let y = (gy * fx).mul_add(top[h + i], y);
                let y = (fy * gx).mul_add(bottom[l + i], y);
                want.push((fy * fx).mul_add(bottom[h + i], y));
            }
        }
        for k in kernels() {
            let mut got = vec![77.0; 5 * (c + gap)];
            let args = BilinearRow {
                top: top.as_ptr(),
                bottom: bottom.as_ptr(),
                down,
                left: &left,
                right: &right,
                across: &across,
                pixel_stride: c,
                c,
                out: got.as_mut_ptr(),
                out_stride: c + gap,
            };
            // SAFETY: the rows hold six pixels, and the output five, with a guard behind each where there is a gap.
            unsafe { k.bilinear_row(&args) };
            if gap == 0 {
                assert_eq!(bits(&got), bits(&want), "{:?}", k.isa());
            } else {
                check_rows(k, &got, &want, 5, c);
            }
        }
    }
}

#[test]
fn steps_reach_every_row_of_a_map() {
    let mut r = Lcg(12);
    for (rows, n) in [(1, 1), (7, 3), (40, 5), (17, 16), (9, 17), (5, 40), (3, 300)] {
        let stride = n + 2;
        let src = r.floats(rows * stride);
        let (column, full) = (r.floats(rows), r.floats(rows * n));
        let scale = Operand::RowScalars {
            base: column.as_ptr(),
            stride: 1,
        };
        let shift = Operand::Strided {
            base: full.as_ptr(),
            stride: n,
        };
        let step = |op, operand| Step::Binary {
            op,
            operand,
            swapped: false,
        };
        let steps = [step(Binary::Mul, scale), step(Binary::Add, shift), Step::Unary(Unary::Relu)];
        let value = |i: usize, used: usize| {
            let (row, x) = (i / n, src[i / n * stride + i % n]);
            let y = x * column[row] + full[i];
            if used == 0 { x } else { y.max(0.0) }
        };
        for kernels in kernels() {
            for used in [0, steps.len()] {
                let want: Vec<f32> = (0..rows * n).map(|i| value(i, used)).collect();
                let mut got = vec![77.0; rows * (n + 1)];
                let args = MapRows {
                    src: src.as_ptr(),
                    src_stride: stride,
                    dst: got.as_mut_ptr(),
                    dst_stride: n + 1,
                    rows,
                    n,
                    steps: &steps[..used],
                };
                // SAFETY: both sides hold `rows` rows of `n` floats, and the operands as many.
                unsafe { kernels.map_rows(&args) };
                check_rows(kernels, &got, &want, rows, n);
            }
        }
    }
}
