//! Coordinates, whose axis has two elements or four: a thread's eight run over the axes around it, too (`kernels/elementwise_lanes.cu`).

use super::{GROUP, Params, every_tensor, numbered};
use crate::limits::MAX_RANK;

/// The unit, and its kernel of any function.
pub const NAME: &str = "elementwise_lanes";
/// Axes along which a thread's elements may lie.
const AXES: usize = 3;
/// How many bits of a lane's number are its coordinate on each of the innermost axes, the likeliest first.
const FORMS: [[u32; AXES]; 3] = [[1, 2, 0], [2, 1, 0], [1, 1, 1]];

/// Whether the lanes of a thread lie so that the first axes but the last are whole in them, their results are side by side, and every
/// tensor numbers its elements in 31 bits.
///
/// Copies stay where they are: what turns them is `kernels/permute.cu`.
fn form(params: &mut Params, extents: &[u32; MAX_RANK]) -> Option<[u32; AXES]> {
    let elements: u64 = extents.iter().map(|&e| u64::from(e)).product();
    if params.copy == 1 || elements <= u64::from(GROUP) {
        return None;
    }
    let mut all = true;
    every_tensor(params, |_, _, strides| all &= numbered(strides, extents));
    let fits = |bits: &&[u32; AXES]| {
        let last = bits.iter().rposition(|&b| b > 0).unwrap_or(0);
        let side_by_side = (0..=last).all(|a| params.y.strides[a] == 1 << bits[..a].iter().sum::<u32>());
        side_by_side && (0..last).all(|a| extents[a] == 1 << bits[a]) && extents[last].is_multiple_of(1 << bits[last])
    };
    FORMS.iter().find(fits).copied().filter(|_| all)
}

/// Has a thread take eight elements over several axes where they lie so: the lanes along an axis are then one of its extent.
pub fn spread(params: &mut Params, extents: &mut [u32; MAX_RANK]) -> bool {
    let Some(bits) = form(params, extents) else { return false };
    [params.length, params.group, params.padding] = bits;
    (0..AXES).for_each(|axis| extents[axis] >>= bits[axis]);
    true
}

#[cfg(test)]
mod tests {
    use super::super::{Divisor, FROM_MEMORY, turn};
    use super::*;
    use bytemuck::Zeroable;

    /// Contiguous strides of the extents, outermost first, 0 where the tensor repeats itself.
    fn strides(own: [u32; MAX_RANK]) -> [i64; MAX_RANK] {
        let behind = |axis: usize| own[axis + 1..].iter().map(|&e| i64::from(e)).product();
        std::array::from_fn(|axis| if own[axis] == 1 { 0 } else { behind(axis) })
    }

    /// Parameters of results of the extents, of what lies as they do, and of another tensor.
    fn params(extents: [u32; MAX_RANK], other: [i64; MAX_RANK]) -> Params {
        let mut params = Params::zeroed();
        params.y.strides = strides(extents);
        (params.head.a.source, params.head.b.source) = (FROM_MEMORY, FROM_MEMORY);
        (params.head.a.strides, params.head.b.strides) = (params.y.strides, other);
        params
    }

    /// The kernel's arithmetic: where the elements of a thread lie in a tensor.
    fn places(params: &Params, strides: &[i64; MAX_RANK], thread: u32) -> [i64; 8] {
        let (mut rest, mut first) = (thread, 0);
        for (axis, stride) in strides.iter().enumerate().skip(1) {
            let extent = params.extents[axis];
            let above = if axis + 1 < MAX_RANK { extent.divide(rest) } else { 0 };
            let lanes = [0, params.group, params.padding, 0, 0, 0][axis];
            first += i64::from((rest - above * extent.divisor) << lanes) * stride;
            rest = above;
        }
        let steps = [
            strides[0],
            if params.length == 1 { strides[1] } else { 2 * strides[0] },
            match (params.padding, params.group) {
                (1, _) => strides[2],
                (_, 1) => strides[1],
                _ => 2 * strides[1],
            },
        ];
        std::array::from_fn(|lane| first + (0..3).map(|bit| (lane as i64 >> bit & 1) * steps[bit]).sum::<i64>())
    }

    #[test]
    fn every_element_is_some_threads_and_lies_where_its_strides_say() {
        for (extents, own, bits) in [
            ([1, 30, 8, 3, 4, 2], [1, 30, 1, 1, 1, 2], [1, 2, 0]),
            ([1, 30, 8, 3, 2, 4], [1, 30, 1, 1, 1, 4], [2, 1, 0]),
            ([6, 10, 8, 4, 2, 2], [6, 10, 1, 4, 1, 2], [1, 1, 1]),
            ([6, 10, 8, 4, 2, 2], [1, 10, 8, 4, 1, 2], [1, 1, 1]),
        ] {
            let mut p = params(extents, strides(own));
            let whole = p;
            let mut turned = extents;
            turn(&mut p, &mut turned).unwrap();
            assert!(spread(&mut p, &mut turned), "{extents:?}");
            assert_eq!([p.length, p.group, p.padding], bits);
            p.extents = turned.map(Divisor::new);
            let threads: u32 = turned.iter().product();
            assert_eq!(8 * threads, extents.iter().product::<u32>());
            for thread in 0..threads {
                let lanes = [&p.y.strides, &p.head.a.strides, &p.head.b.strides].map(|s| places(&p, s, thread));
                for lane in 0..8 {
                    let mut rest = 8 * thread + lane as u32;
                    let mut plain = [0; 3];
                    for axis in (0..MAX_RANK).rev() {
                        let at = i64::from(rest % extents[axis]);
                        rest /= extents[axis];
                        let all = [&whole.y.strides, &whole.head.a.strides, &whole.head.b.strides];
                        (0..3).for_each(|i| plain[i] += at * all[i][axis]);
                    }
                    assert_eq!(lanes.map(|l| l[lane]), plain, "{extents:?}, {thread}, {lane}");
                }
            }
        }
    }

    #[test]
    fn lanes_are_whole_and_their_results_side_by_side() {
        let bits = |mut p: Params, extents| form(&mut p, &extents);
        let turned = |extents: [u32; MAX_RANK], results: [i64; MAX_RANK], other: [i64; MAX_RANK]| {
            let mut p = params([1; MAX_RANK], other);
            p.y.strides = results;
            (p, extents)
        };
        let of = |(p, extents)| bits(p, extents);
        let pairs = [2, 96, 300, 1, 1, 1];
        assert_eq!(of(turned(pairs, [1, 2, 192, 0, 0, 0], [1, 0, 4, 0, 0, 0])), Some([1, 2, 0]));
        assert_eq!(
            of(turned(pairs, [1, 2, 200, 0, 0, 0], [0; 6])),
            Some([1, 2, 0]),
            "cut along an outer axis"
        );
        assert_eq!(of(turned(pairs, [1, 3, 288, 0, 0, 0], [0; 6])), None, "results apart");
        assert_eq!(
            of(turned([2, 98, 3, 1, 1, 1], [1, 2, 196, 0, 0, 0], [0; 6])),
            None,
            "no whole eights"
        );
        assert_eq!(
            of(turned([3, 96, 3, 1, 1, 1], [1, 3, 288, 0, 0, 0], [0; 6])),
            None,
            "three coordinates"
        );
        assert_eq!(of(turned([4, 6, 3, 1, 1, 1], [1, 4, 24, 0, 0, 0], [0; 6])), Some([2, 1, 0]));
        assert_eq!(of(turned([4, 7, 3, 1, 1, 1], [1, 4, 28, 0, 0, 0], [0; 6])), None);
        assert_eq!(of(turned([2, 4, 1, 1, 1, 1], [1, 2, 0, 0, 0, 0], [0; 6])), None, "one thread's");
        assert_eq!(of(turned([2, 2, 6, 1, 1, 1], [1, 2, 4, 0, 0, 0], [0; 6])), Some([1, 1, 1]));
        assert_eq!(
            of(turned([2, 2, 6, 1, 1, 1], [1, 2, 8, 0, 0, 0], [0; 6])),
            None,
            "a gap behind four"
        );
        assert_eq!(
            of(turned([2, 2, 5, 4, 1, 1], [1, 2, 4, 20, 0, 0], [0; 6])),
            None,
            "halves of threads"
        );
        assert_eq!(
            of(turned(pairs, [1, 2, 192, 0, 0, 0], [1, 0, 1 << 24, 0, 0, 0])),
            None,
            "beyond 31 bits"
        );
        let (mut copy, extents) = turned(pairs, [1, 2, 192, 0, 0, 0], [0; 6]);
        copy.copy = 1;
        assert_eq!(bits(copy, extents), None);
    }
}
