//! Which shares of its inputs a primitive needs for a share of its output: the ground of chunks and their halos (P2, P4).

use super::{Places, Primitive, Region, Sample, Window};
use crate::tensor::Shape;
use std::ops::Range;

/// Along which of an output's axes a primitive may be cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splits {
    /// The batch axis (axis 0) may be cut.
    pub batch: bool,
    /// The row axis ([`Shape::row_axis`]) may be cut.
    pub rows: bool,
}

impl Primitive {
    /// Along which axes of the (first) output of shape `output` this primitive may be cut.
    pub fn splits(&self, output: Shape) -> Splits {
        let both = Splits {
            batch: output.rank() >= 1,
            rows: output.row_axis().is_some(),
        };
        let along = |axis: usize| Splits {
            batch: both.batch && axis != 0,
            rows: both.rows && output.row_axis() != Some(axis),
        };
        match self {
            Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Copy | Primitive::Resize(_) | Primitive::Pad { .. } => both,
            Primitive::Sample(_) => both,
            // In rank 3 the row axis is the channels, which a window does not cut.
            Primitive::Conv { .. } | Primitive::ConvTranspose { .. } | Primitive::Pool { .. } => Splits {
                batch: both.batch,
                rows: output.rank() >= 4,
            },
            // Rank 3 `[B,M,N]` and rank 4 `[B,H,M,N]` are cut along M; rank 2 `[M,N]` along its batch axis M.
            Primitive::MatMul | Primitive::Attention { .. } => Splits {
                batch: both.batch,
                rows: both.rows && output.rank() <= 4,
            },
            Primitive::Softmax { axis }
            | Primitive::Expectation { axis }
            | Primitive::Normalise { axis, .. }
            | Primitive::RmsNormalise { axis, .. }
            | Primitive::ArgMax { axis } => along(usize::from(*axis)),
            Primitive::Reduce { axes, .. } => Splits {
                batch: both.batch && axes & 1 == 0,
                rows: both.rows && output.row_axis().is_some_and(|a| axes & (1 << a) == 0),
            },
            // The rows that crops show have no row axis, so only the batch axis is common to both outputs.
            Primitive::TopK | Primitive::Crop(_) | Primitive::GroupNormalise { .. } => Splits {
                batch: both.batch,
                rows: false,
            },
            // The steps follow each other; the rows are the batch.
            Primitive::Lstm { .. } | Primitive::Gru { .. } | Primitive::Prepare(_) => Splits {
                batch: false,
                rows: both.rows,
            },
            Primitive::Gather { .. } | Primitive::DecodeYolox { .. } | Primitive::Nms(_) | Primitive::Sources { .. } => {
                Splits { batch: false, rows: false }
            }
        }
    }

    /// The share of input `index` (of shape `input`) that `region` of the output (of shape `output`) is computed from.
    ///
    /// Never smaller than what a kernel reads; exact in rows for windows, so halo rows are in it. Weights are needed whole.
    pub fn needs(&self, index: usize, input: Shape, output: Shape, region: &Region) -> Region {
        let whole = Region::whole(input);
        if region.is_empty() {
            return Region { batch: 0..0, rows: 0..0 };
        }
        let same_rank_rows = |rows: Range<u32>| Region {
            batch: region.batch.clone(),
            rows,
        };
        match self {
            Primitive::Conv { window, .. } | Primitive::Pool { window, .. } if index == 0 => same_rank_rows(if input.rank() >= 4 {
                forward_rows(window, &region.rows, input.rows())
            } else {
                whole.rows
            }),
            Primitive::ConvTranspose { window, .. } if index == 0 => same_rank_rows(if input.rank() >= 4 {
                transposed_rows(window, &region.rows, input.rows())
            } else {
                whole.rows
            }),
            Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Copy => region.clone(),
            Primitive::Expectation { .. } if index > 0 => whole,
            Primitive::Softmax { .. }
            | Primitive::Expectation { .. }
            | Primitive::Normalise { .. }
            | Primitive::RmsNormalise { .. }
            | Primitive::ArgMax { .. } => {
                let splits = self.splits(output);
                Region {
                    batch: if splits.batch { region.batch.clone() } else { whole.batch },
                    rows: if splits.rows { region.rows.clone() } else { whole.rows },
                }
            }
            Primitive::Reduce { axes, .. } => Region {
                batch: if axes & 1 == 0 { region.batch.clone() } else { whole.batch },
                rows: if input.row_axis().is_some_and(|a| axes & (1 << a) == 0) {
                    region.rows.clone()
                } else {
                    whole.rows
                },
            },
            Primitive::TopK | Primitive::GroupNormalise { .. } => Region {
                batch: region.batch.clone(),
                rows: whole.rows,
            },
            Primitive::Attention { .. } if index == 0 || index == 3 => {
                // The queries and the mask are cut like the output.
                if output.rank() <= 4 { region.clone() } else { whole }
            }
            Primitive::Attention { .. } if output.rank() > 2 => Region {
                batch: region.batch.clone(),
                rows: whole.rows,
            },
            Primitive::MatMul if index == 0 || index == 2 => {
                // `a` is cut like the output: rank 2 by its batch axis, rank 3 and 4 by the row axis M.
                if output.rank() <= 4 { region.clone() } else { whole }
            }
            Primitive::MatMul if output.rank() > 2 => Region {
                batch: region.batch.clone(),
                rows: whole.rows,
            },
            // Resampled and padded batches or rows map through tables; the safe answer is all rows of the batches, or all.
            Primitive::Resize(r) => {
                if r.scales[0].0 == 1.0
                    && input.batch() == output.batch()
                    && !matches!(r.coordinates, super::Coordinates::CropAndResize { .. })
                {
                    same_rank_rows(whole.rows)
                } else {
                    whole
                }
            }
            Primitive::Pad { begin, .. } => {
                if begin[0] == 0 && input.batch() == output.batch() {
                    same_rank_rows(whole.rows)
                } else {
                    whole
                }
            }
            // Places may be anywhere in a sample; a grid's rows are no rows of its shape, moves and factors are cut like the output.
            Primitive::Sample(Sample {
                places: Places::Taps { .. },
                ..
            }) if index > 0 => region.clone(),
            Primitive::Sample(_) => same_rank_rows(whole.rows),
            Primitive::Lstm { .. } | Primitive::Gru { .. } => match index {
                0 => same_rank_rows(region.rows.clone()),
                1 => whole,
                _ => state_rows(&region.rows),
            },
            _ => whole,
        }
    }

    /// The share of output `index` (of shape `output`) that is written where `region` of the first output (of shape
    /// `first`) is computed.
    ///
    /// Outputs of a primitive that can be cut along an axis have that axis in common, whichever place it has in each; what
    /// is whole along an axis of the first output is whole in all.
    pub fn writes(&self, index: usize, output: Shape, first: Shape, region: &Region) -> Region {
        let (whole, all) = (Region::whole(output), Region::whole(first));
        match self {
            _ if index == 0 => region.clone(),
            Primitive::Lstm { .. } if !region.is_empty() => state_rows(&region.rows),
            _ => Region {
                batch: if region.batch == all.batch {
                    whole.batch
                } else {
                    region.batch.clone()
                },
                rows: if region.rows == all.rows { whole.rows } else { region.rows.clone() },
            },
        }
    }
}

/// The share of a recurrent state `[B,H]` that belongs to the rows `rows` of `[T,B,H]`.
fn state_rows(rows: &Range<u32>) -> Region {
    Region {
        batch: rows.clone(),
        rows: 0..1,
    }
}

/// Input rows under output rows `rows` of a forward window, cut to the input.
fn forward_rows(window: &Window, rows: &Range<u32>, extent: u32) -> Range<u32> {
    let (stride, pad) = (i64::from(window.stride[0]), i64::from(window.pad_begin[0]));
    let reach = i64::from(window.reach(0).unwrap_or(1));
    let first = i64::from(rows.start) * stride - pad;
    let last = i64::from(rows.end - 1) * stride - pad + reach;
    clamp(first, last, extent)
}

/// Input rows that reach output rows `rows` of a transposed window, cut to the input.
fn transposed_rows(window: &Window, rows: &Range<u32>, extent: u32) -> Range<u32> {
    let (stride, pad) = (i64::from(window.stride[0]), i64::from(window.pad_begin[0]));
    let reach = i64::from(window.reach(0).unwrap_or(1));
    // Output y gets input i iff i * stride <= y + pad <= i * stride + reach - 1.
    let first = (i64::from(rows.start) + pad - (reach - 1)).div_euclid(stride);
    let last = (i64::from(rows.end - 1) + pad).div_euclid(stride) + 1;
    clamp(first, last, extent)
}

fn clamp(first: i64, last: i64, extent: u32) -> Range<u32> {
    let limit = i64::from(extent);
    let (start, end) = (first.clamp(0, limit), last.clamp(0, limit));
    start as u32..end.max(start) as u32
}
