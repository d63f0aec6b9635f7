//! Weights in the order in which blocks copy them, arranged as the 128-byte swizzle of shared memory has them.

use std::ops::Range;

/// Halves of a row of a block.
const BLOCK: usize = 64;
/// Bytes of a row of a block.
const LINE: usize = BLOCK * 2;
/// Rows of a swizzle pattern; rows are padded to a multiple.
const PATTERN_ROWS: usize = 8;
/// Halves in 16 bytes, which the pattern moves as one.
const PIECE: usize = 8;
/// Output channels that are read together where they lie side by side: a cache line of them.
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
    let (taps, channel_blocks) = (rows * columns, inputs.div_ceil(BLOCK));
    let mut packed = vec![0; taps * channel_blocks * padded * BLOCK * 2];
    let (lines, _) = packed.as_chunks_mut::<LINE>();
    let (halves, _) = source.bytes.as_chunks::<2>();
    let [of_output, of_row, of_column, of_input] = source.strides;
    // What lies side by side is read together, so that each cache line comes once: neighbours along the outputs, or all taps of a few
    // outputs' channels.
    let side_by_side = of_output < of_input.min(of_row).min(of_column);
    let (most_taps, most_outputs) = if side_by_side { (1, TOGETHER) } else { (taps, PATTERN_ROWS) };
    for first_tap in (0..taps).step_by(most_taps) {
        for (block, first) in (0..channel_blocks).zip((0..inputs).step_by(BLOCK)) {
            let width = BLOCK.min(inputs - first);
            for output in (0..outputs).step_by(most_outputs) {
                let count = most_outputs.min(outputs - output);
                for tap in first_tap..taps.min(first_tap + most_taps) {
                    let from = tap / columns * of_row + tap % columns * of_column + first * of_input + output * of_output;
                    let place = (tap * channel_blocks + block) * padded + output;
                    let lines = &mut lines[place..place + count];
                    let source = halves.get(from..).unwrap_or_default();
                    match (of_output, of_input) {
                        (_, 1) => copy_lines(lines, source, width, of_output),
                        (1, _) => turn_lines(lines, source, width, of_input),
                        _ => gather_lines(lines, source, 0..width, [of_output, of_input]),
                    }
                }
            }
        }
    }
    packed
}

/// The byte of a row's line at which a piece lies.
fn swizzled(row: usize, piece: usize) -> usize {
    (piece ^ (row % PATTERN_ROWS)) * PIECE * 2
}

/// Fills the lines of some outputs, the first a multiple of the pattern's rows, whose channels follow each other.
fn copy_lines(lines: &mut [[u8; LINE]], halves: &[[u8; 2]], width: usize, of_output: usize) {
    for (row, line) in lines.iter_mut().enumerate() {
        let from = halves.get(row * of_output..).unwrap_or_default();
        let from = from[..width.min(from.len())].as_flattened();
        for (piece, bytes) in from.chunks(PIECE * 2).enumerate() {
            let to = swizzled(row, piece);
            line[to..to + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// The same where a channel's outputs follow each other: squares are turned round, as far as there are whole ones.
fn turn_lines(lines: &mut [[u8; LINE]], halves: &[[u8; 2]], width: usize, of_input: usize) {
    let whole = lines.len().is_multiple_of(PATTERN_ROWS) && (width - 1) * of_input + lines.len() <= halves.len();
    let pieces = if whole { width / PIECE } else { 0 };
    for piece in 0..pieces {
        for (group, rows) in lines.as_chunks_mut::<PATTERN_ROWS>().0.iter_mut().enumerate() {
            let from = |channel: usize| (piece * PIECE + channel) * of_input + group * PATTERN_ROWS;
            let square: [[[u8; 2]; PATTERN_ROWS]; PIECE] =
                std::array::from_fn(|c| std::array::from_fn(|row| halves[from(c)..from(c) + PATTERN_ROWS][row]));
            for (row, line) in rows.iter_mut().enumerate() {
                let turned: [[u8; 2]; PIECE] = std::array::from_fn(|c| square[c][row]);
                line[swizzled(row, piece)..][..PIECE * 2].copy_from_slice(turned.as_flattened());
            }
        }
    }
    gather_lines(lines, halves, pieces * PIECE..width, [1, of_input]);
}

/// The same of some channels that lie anywhere.
fn gather_lines(lines: &mut [[u8; LINE]], halves: &[[u8; 2]], channels: Range<usize>, [of_output, of_input]: [usize; 2]) {
    for channel in channels {
        let (piece, inside) = (channel / PIECE, channel % PIECE);
        let from = halves.get(channel * of_input..).unwrap_or_default();
        for (row, line) in lines.iter_mut().enumerate() {
            let to = swizzled(row, piece) + inside * 2;
            if let Some(half) = from.get(row * of_output) {
                line[to..to + 2].copy_from_slice(half);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All orders in memory, output channels past one group of rows, and channels past one block.
    #[test]
    fn weights_are_packed_in_swizzled_blocks() {
        let [outputs, taps, inputs] = [42, 2, 72];
        let padded = 48;
        let orders = [
            [taps * inputs, inputs, 0, 1],
            [1, inputs * outputs, 0, outputs],
            [taps * inputs, 1, 0, taps],
        ];
        for strides in orders {
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
