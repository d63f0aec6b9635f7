//! Copies of halves from pixels of up to eight channels into planes: `kernels/permute_few.cu`.

use super::tail::TailOperand;
use super::views::{DeviceView, Divisor, dtype_number};
use super::{BindError, Launch, count};
use crate::limits::MAX_RANK;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 128;
/// Pixels of a thread.
const PIXELS: u32 = 4;
/// Most channels: there is a kernel for every number of them.
const CHANNELS: u32 = 8;
/// Fewest pixels side by side in a plane that are worth it.
const ACROSS: u32 = 8;
/// Axes besides those of pixels and channels.
const OTHERS: usize = MAX_RANK - 2;

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Params {
    x: u64,
    y: u64,
    x_pixel: i64,
    y_plane: i64,
    x_others: [i64; OTHERS],
    y_others: [i64; OTHERS],
    across: Divisor,
    others: [Divisor; OTHERS],
    used: u32,
    count: u32,
    whole: u32,
}

/// The axis of the channels, and how many there are; axis 0, that of the pixels, where there is one. `None` where no few lie side by side
/// between pixels.
fn channels(x: &TailOperand, extents: &[u32; MAX_RANK]) -> Option<(usize, u32)> {
    let beside = (1..MAX_RANK).find(|&a| extents[a] > 1 && x.strides[a] == 1);
    let (axis, channels) = beside.map_or((0, 1), |a| (a, extents[a]));
    let apart = x.strides[0] >= i64::from(channels.max(2));
    (channels <= CHANNELS && apart).then_some((axis, channels))
}

/// The launch of a copy from `x` to `y`, axes in the order of the output's strides and joined; `None` for what the kernels do not take.
pub fn launch(x: &TailOperand, y: &DeviceView, extents: &[u32; MAX_RANK], width: u16) -> Result<Option<Launch>, BindError> {
    let [floats, halves] = [DType::F32, DType::F16].map(dtype_number);
    let planes = x.dtype == halves && [floats, halves].contains(&y.dtype) && y.strides[0] == 1 && extents[0] >= ACROSS;
    let Some((axis, channels)) = channels(x, extents).filter(|_| planes) else {
        return Ok(None);
    };
    // Squares of halves that pieces hold are turned in registers.
    if channels == CHANNELS && y.dtype == halves {
        return Ok(None);
    }
    let loaded = i64::from(channels.next_power_of_two());
    let steps = (0..MAX_RANK).filter(|&a| extents[a] > 1 && (a != axis || axis == 0));
    let whole = steps.clone().all(|a| x.strides[a] % loaded == 0) && x.address.is_multiple_of(loaded as u64 * 2);
    let mut params = Params {
        x: x.address,
        y: y.address,
        x_pixel: x.strides[0],
        y_plane: if axis == 0 { 0 } else { y.strides[axis] },
        across: Divisor::new(extents[0]),
        others: [Divisor::new(1); OTHERS],
        whole: u32::from(whole),
        ..Params::zeroed()
    };
    for a in steps.filter(|&a| a != 0) {
        let at = params.used as usize;
        if at == OTHERS {
            return Ok(None);
        }
        params.others[at] = Divisor::new(extents[a]);
        (params.x_others[at], params.y_others[at]) = (x.strides[a], y.strides[a]);
        params.used += 1;
    }
    params.count = count(params.others.iter().chain([&params.across]).map(|d| d.divisor), "a chunk")?;
    let kind = if y.dtype == floats { "floats" } else { "halves" };
    let (tiles, function) = (params.count.div_ceil(THREADS * PIXELS), format!("permute_few_{channels}_{kind}"));
    Ok(Some(Launch::new("permute_few", function, tiles, width, THREADS, &params)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::bind::tail::FROM_MEMORY;

    /// The function and the parameters of a copy of halves into floats, if it is taken.
    fn of(from: [i64; MAX_RANK], to: [i64; MAX_RANK], extents: [u32; MAX_RANK]) -> Option<(String, Params)> {
        let x = TailOperand {
            address: 1 << 20,
            source: FROM_MEMORY,
            dtype: dtype_number(DType::F16),
            strides: from,
        };
        let y = DeviceView {
            address: 1 << 30,
            dtype: dtype_number(DType::F32),
            rank: MAX_RANK as u32,
            strides: to,
            extents,
        };
        let launch = launch(&x, &y, &extents, 0).unwrap()?;
        Some((launch.function, bytemuck::pod_read_unaligned(&launch.params)))
    }

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), 32 + 64 + 12 + 48 + 12);
        let source = include_str!("../kernels/permute_few.cu");
        for line in [format!("THREADS = {THREADS};"), format!("PIXELS = {PIXELS};")] {
            assert!(source.contains(&line), "{line}");
        }
        for (channels, (kind, last)) in (1..=CHANNELS).flat_map(|c| [("floats", CHANNELS), ("halves", CHANNELS - 1)].map(|k| (c, k))) {
            let line = format!("PERMUTE(permute_few_{channels}_{kind}, {channels}, ");
            assert_eq!(source.contains(&line), channels <= last, "{line}");
        }
    }

    #[test]
    fn pixels_of_few_channels_are_loaded_whole_where_they_lie_so() {
        let picture = |channels: u32, pitch: i64| of([pitch, 1, 0, 0, 0, 0], [1, 5000, 0, 0, 0, 0], [5000, channels, 1, 1, 1, 1]);
        for (channels, pitch, whole) in [(7, 8, 1), (7, 7, 0), (2, 2, 1), (3, 4, 1), (3, 6, 0), (5, 12, 0), (8, 8, 1)] {
            let (name, params) = picture(channels, pitch).unwrap();
            assert_eq!((name, params.whole), (format!("permute_few_{channels}_floats"), whole), "{pitch}");
            assert_eq!((params.x_pixel, params.y_plane, params.used, params.count), (pitch, 5000, 0, 5000));
        }
        assert!(picture(9, 16).is_none());
        assert!(picture(7, 4).is_none(), "pixels in each other");
    }

    #[test]
    fn samples_rows_and_single_channels_are_counted() {
        let (_, params) = of([8, 400, 1, 12000, 0, 0], [1, 40, 1200, 8400, 0, 0], [40, 30, 7, 2, 1, 1]).unwrap();
        assert_eq!((params.used, params.count), (2, 2 * 30 * 40));
        assert_eq!(
            (params.x_others[..2].to_vec(), params.y_others[..2].to_vec()),
            (vec![400, 12000], vec![40, 8400])
        );
        let (name, params) = of([8, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [900, 1, 1, 1, 1, 1]).unwrap();
        assert_eq!((name.as_str(), params.x_pixel, params.whole), ("permute_few_1_floats", 8, 1));
        assert!(
            of([1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [900, 1, 1, 1, 1, 1]).is_none(),
            "side by side already"
        );
        assert!(of([64, 1, 0, 0, 0, 0], [1, 48, 0, 0, 0, 0], [48, 64, 1, 1, 1, 1]).is_none());
    }
}
