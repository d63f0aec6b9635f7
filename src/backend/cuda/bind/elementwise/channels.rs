//! Chains of short functions of pixels and of what all pixels have the same of, such as scales by channel:
//! `kernels/elementwise_channels.cu`.

use super::{GROUP, Params, THREADS, every_tensor, in_memory};
use crate::backend::cuda::bind::tail::{TailCall, binary_number, unary_number};
use crate::limits::MAX_RANK;
use crate::primitive::{Binary, Scalar, Unary};

/// The unit.
pub const NAME: &str = "elementwise_channels";
/// The kernels, pixels of a thread, and from how many runs for each thread of a block on every multiprocessor on.
const KERNELS: [(&str, u32); 2] = [("elementwise_channels_fours", 4), ("elementwise_channels_pairs", 2)];

/// Whether the kernel knows a function of one value.
fn is_short_unary(function: u32) -> bool {
    let zero = Scalar(0.0);
    let known = [Unary::Relu, Unary::LeakyRelu(zero), Unary::Clip(zero, zero), Unary::HardSwish];
    known.into_iter().any(|kind| unary_number(kind) == function)
}

/// Whether it knows a function of two values, of which the chain's is the first or, `turned`, the second.
fn is_short_binary(function: u32, turned: bool) -> bool {
    let known = [Binary::Add, Binary::Mul, Binary::Sub, Binary::PRelu];
    let number = known.into_iter().find(|&kind| binary_number(kind) == function);
    number.is_some_and(|kind| !turned || kind != Binary::PRelu)
}

/// Whether every call is a short function of the value before it, or of it and a tensor, and no value is read once more.
fn is_straight(params: &Params) -> bool {
    let tail = &params.tail;
    let calls = &tail.call[..tail.calls as usize];
    let head = &params.head;
    let begins = params.copy == 1 || is_short_unary(head.function) || is_short_binary(head.function, false) && in_memory(&head.b);
    let follows = |(before, call): (usize, &TailCall)| {
        let is_before = |source: u32| source == before as u32;
        let (a, b) = (&call.a, &call.b);
        match (is_short_unary(call.function), in_memory(a), in_memory(b)) {
            (true, false, _) => is_before(a.source),
            (false, false, true) => is_before(a.source) && is_short_binary(call.function, false),
            (false, true, false) => is_before(b.source) && is_short_binary(call.function, true),
            _ => false,
        }
    };
    let kept = tail.head_kept == 1 || calls.iter().any(|call| call.kept == 1);
    in_memory(&head.a) && begins && !kept && calls.iter().enumerate().all(follows)
}

/// Has a thread take the same channels of several pixels, if the chain and its tensors, which lie alike, are such, and gives the kernel:
/// extents are then those of runs and of pixels.
pub fn spread(params: &mut Params, extents: &mut [u32; MAX_RANK], multiprocessors: u32) -> Option<&'static str> {
    let (runs, pixels) = (extents[0] / GROUP, extents[1]);
    let two = pixels > 1 && extents[2..].iter().all(|&e| e == 1);
    if !two || !(1..=THREADS).contains(&runs) || !is_straight(params) {
        return None;
    }
    let mut shared = false;
    every_tensor(params, |_, _, strides| shared |= strides[1] == 0);
    let enough = |&&(_, each): &&(&str, u32)| runs.saturating_mul(pixels) >= each.saturating_mul(multiprocessors).saturating_mul(THREADS);
    let &(kernel, each) = KERNELS.iter().find(enough).filter(|_| shared)?;
    let together = THREADS / runs;
    extents[0] = runs;
    (params.group, params.length) = (0, together * runs);
    params.tiles = pixels.div_ceil(each * together);
    Some(kernel)
}

#[cfg(test)]
mod tests {
    use super::super::{FROM_MEMORY, TailOperand};
    use super::*;
    use bytemuck::Zeroable;

    const HALVES: u32 = 1;

    fn tensor(strides: [i64; 2]) -> TailOperand {
        TailOperand {
            address: 1 << 20,
            source: FROM_MEMORY,
            dtype: HALVES,
            strides: [strides[0], strides[1], 0, 0, 0, 0],
        }
    }

    fn value(source: u32) -> TailOperand {
        TailOperand {
            source,
            ..TailOperand::default()
        }
    }

    /// A picture times scales, less shifts, under slopes.
    fn chain() -> Params {
        let call = |function, a, b| TailCall {
            function,
            a,
            b,
            ..TailCall::default()
        };
        let mut params = Params::zeroed();
        params.y.strides = [1, 64, 0, 0, 0, 0];
        params.head = call(binary_number(Binary::Mul), tensor([1, 64]), tensor([1, 0]));
        params.tail.calls = 2;
        params.tail.call[0] = call(binary_number(Binary::Sub), tensor([1, 0]), value(0));
        params.tail.call[1] = call(binary_number(Binary::PRelu), value(1), tensor([1, 0]));
        params
    }

    #[test]
    fn chains_by_channel_have_pixels_of_their_own() {
        let (mut params, mut extents) = (chain(), [24, 57_600, 1, 1, 1, 1]);
        assert_eq!(spread(&mut params, &mut extents, 16), Some("elementwise_channels_fours"));
        assert_eq!((extents, params.length), ([3, 57_600, 1, 1, 1, 1], 255));
        assert_eq!(params.tiles, 57_600u32.div_ceil(4 * 85));
        let kernel = |pixels: u32| spread(&mut chain(), &mut [64, pixels, 1, 1, 1, 1], 16);
        assert_eq!(kernel(1024), Some("elementwise_channels_pairs"));
        assert_eq!(kernel(1023), None, "few");
        let of = |extents: [u32; 3]| spread(&mut chain(), &mut [extents[0], extents[1], extents[2], 1, 1, 1], 0).is_some();
        assert!(of([2048, 5, 1]));
        assert!(!of([2056, 5, 1]), "more channels than a block has");
        assert!(!of([64, 5, 2]), "rows apart");
        assert!(!of([64, 1, 1]), "one pixel");
    }

    #[test]
    fn other_chains_are_left_to_others() {
        let taken = |change: &dyn Fn(&mut Params)| {
            let mut params = chain();
            change(&mut params);
            is_straight(&params)
        };
        assert!(taken(&|_| ()));
        assert!(!taken(&|p| p.tail.call[0].kept = 1), "read once more");
        assert!(!taken(&|p| p.tail.head_kept = 1), "the head, too");
        assert!(!taken(&|p| p.tail.call[1].a = value(0)), "not the value before");
        assert!(
            !taken(&|p| (p.tail.call[1].a, p.tail.call[1].b) = (tensor([1, 0]), value(1))),
            "slopes by the chain"
        );
        assert!(!taken(&|p| p.tail.call[0].function = binary_number(Binary::Div)), "no short one");
        assert!(!taken(&|p| p.tail.call[1].function = unary_number(Unary::Tanh)), "nor this");
        let mut plain = chain();
        (plain.tail, plain.head.b) = (Zeroable::zeroed(), tensor([1, 64]));
        let mut extents = [64, 4096, 1, 1, 1, 1];
        assert_eq!(spread(&mut plain, &mut extents, 1), None, "nothing that pixels share");
    }
}
