//! Weights in the order in which blocks copy them, arranged as the 128-byte swizzle of shared memory has them.

/// Halves of a row of a block.
const BLOCK: usize = 64;
/// Rows of a swizzle pattern; rows are padded to a multiple.
const PATTERN_ROWS: usize = 8;
/// Halves in 16 bytes, which the pattern moves as one.
const PIECE: usize = 8;
/// Rows that are read together, so that what lies side by side across rows is read from one cache line.
const TOGETHER: usize = 32;

/// Where the halves of weights lie in `bytes`, counted in halves.
pub struct Halves<'a> {
    /// The bytes from the first half on.
    pub bytes: &'a [u8],
    /// Steps from one output channel, tap row, tap column and input channel to the next.
    pub strides: [usize; 4],
}

/// Packs weights of `[output channel, tap row, tap column, input channel]` as `[K block][output channel][64 halves]`: taps
/// in row-major order, inside a tap its channels in blocks of 64, zeros behind the last channel. Output channels are padded
/// to a multiple of 8; in every 8 rows the 16-byte pieces are permuted. Halves that `source` lacks are zero.
pub fn swizzled_blocks([outputs, rows, columns, inputs]: [usize; 4], source: &Halves<'_>) -> Vec<u8> {
    let padded = outputs.next_multiple_of(PATTERN_ROWS);
    let channel_blocks = inputs.div_ceil(BLOCK);
    let mut packed = vec![0; rows * columns * channel_blocks * padded * BLOCK * 2];
    let (halves, _) = source.bytes.as_chunks::<2>();
    let [of_output, of_row, of_column, of_input] = source.strides;
    for (k, block) in packed.chunks_exact_mut(padded * BLOCK * 2).enumerate() {
        let (tap, first) = (k / channel_blocks, k % channel_blocks * BLOCK);
        let origin = tap / columns * of_row + tap % columns * of_column + first * of_input;
        let width = BLOCK.min(inputs - first);
        let lines = block.chunks_mut(TOGETHER * BLOCK * 2).zip((0..outputs).step_by(TOGETHER));
        for (lines, output) in lines {
            let count = TOGETHER.min(outputs - output);
            for channel in 0..width {
                let (piece, inside) = (channel / PIECE, channel % PIECE);
                let from = origin + output * of_output + channel * of_input;
                for (row, line) in lines.as_chunks_mut::<{ BLOCK * 2 }>().0.iter_mut().take(count).enumerate() {
                    let to = ((piece ^ (row % PATTERN_ROWS)) * PIECE + inside) * 2;
                    if let Some(half) = halves.get(from + row * of_output) {
                        line[to] = half[0];
                        line[to + 1] = half[1];
                    }
                }
            }
        }
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both orders in memory, output channels past one group of rows, and channels past one block.
    #[test]
    fn weights_are_packed_in_swizzled_blocks() {
        let [outputs, taps, inputs] = [42, 2, 72];
        let padded = 48;
        for strides in [[taps * inputs, inputs, 0, 1], [1, inputs * outputs, 0, outputs]] {
            let code = |o: usize, t: usize, c: usize| (o * strides[0] + t * strides[1] + c * strides[3] + 1) as u16;
            let bytes: Vec<u8> = (1..=(outputs * taps * inputs) as u16).flat_map(u16::to_le_bytes).collect();
            let packed = swizzled_blocks([outputs, taps, 1, inputs], &Halves { bytes: &bytes, strides });
            assert_eq!(packed.len(), 4 * padded * 64 * 2);
            let halves: Vec<u16> = packed.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
            for (o, tap, c) in (0..outputs).flat_map(|o| (0..taps).flat_map(move |t| (0..inputs).map(move |c| (o, t, c)))) {
                let row = (tap * 2 + c / 64) * padded + o;
                let byte = (c % 64) * 2;
                // The 128-byte swizzle: bits 4..7 of an address are flipped by bits 7..10, here the row inside its 8.
                let swizzled = byte ^ ((o % 8) << 4);
                assert_eq!(halves[row * 64 + swizzled / 2], code(o, tap, c));
            }
            assert_eq!(halves.iter().filter(|&&h| h != 0).count(), outputs * taps * inputs);
        }
    }
}
