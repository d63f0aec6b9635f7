//! Convolutions by `wgmma`: which tails leave warpgroups tiles of their own.

use super::bench::{Bench, Link};
use super::patch::WGMMA;
use super::*;
use crate::plan::tactic::conv_wgmma::{Sharing, WgmmaTile};
use crate::primitive::{Binary, Primitive, Unary, Window};

/// The sharings with tiles of their own that a 1x1 convolution behind this tail is offered: those that load weights with their pixels, and
/// those that keep them.
fn own_tiles(tail: impl Fn(&mut Bench) -> Vec<Link>) -> (bool, bool) {
    let mut bench = Bench::new(1);
    let x = bench.tensor(DType::F16, &[1, 128, 96, 96], Form::Pixels);
    let weights = bench.constant(DType::F16, &[128, 128, 1, 1], &[0, 1, 2, 3]);
    let y = bench.tensor(DType::F16, &[1, 128, 96, 96], Form::Pixels);
    let links = tail(&mut bench);
    let head = Primitive::Conv {
        window: Window::new(&[1, 1]),
        groups: 1,
    };
    let mut operator = bench.operator(head, &[x, weights], &links, &[y]);
    operator.class = arithmetic_class(&bench.plan, &operator, WGMMA);
    let menu = menu(&bench.plan, &operator, WGMMA);
    let entries: Vec<_> = menu.iter().filter_map(|&t| WgmmaTile::of(t)).collect();
    let has = |keeps: bool| {
        let own = |e: &&&WgmmaTile| matches!(e.sharing, Sharing::PingPong { .. }) && e.kept().is_some() == keeps;
        entries.iter().any(|e| own(&e))
    };
    (has(false), has(true))
}

#[test]
fn what_is_joined_behind_a_curve_finds_no_tiles_of_their_own() {
    let joined = |bench: &mut Bench| Link::With(Binary::Add, bench.tensor(DType::F16, &[1, 128, 96, 96], Form::Pixels));
    assert_eq!(own_tiles(|_| vec![]), (true, true));
    assert_eq!(own_tiles(|b| vec![joined(b), Link::Of(Unary::Relu)]), (true, true));
    assert_eq!(own_tiles(|_| vec![Link::Of(Unary::Silu)]), (true, false));
    assert_eq!(own_tiles(|b| vec![Link::Of(Unary::Silu), joined(b)]), (false, false));
}
