//! Which kernel takes a reduction.

use super::bench::{Bench, Form, Link, shape};
use super::*;
use crate::plan::format::{Tactic, View};
use crate::primitive::{Binary, Primitive, ReduceKind, Unary};
use crate::tensor::Layout;
use ReduceKind::{Max, Mean, Norm, Sum};

/// A reduction of `x` with strides of its own over `axes`, behind which stands `tail`.
#[derive(Clone, Copy)]
struct Reduction<'a> {
    kind: ReduceKind,
    dtype: DType,
    x: &'a [u32],
    strides: &'a [i64],
    origin: u64,
    axes: u8,
    tail: &'a [Unary],
    /// A tensor is added at the end.
    added: bool,
}

/// Of halves that lie one behind the other, without a tail.
fn of<'a>(kind: ReduceKind, x: &'a [u32], axes: u8) -> Reduction<'a> {
    Reduction {
        kind,
        dtype: DType::F16,
        x,
        strides: &[],
        origin: 0,
        axes,
        tail: &[],
        added: false,
    }
}

impl Reduction<'_> {
    /// Its ranges, and its launch under a width where there are clusters or not.
    fn launch_of(&self, clusters: bool, width: u16) -> (u16, Launch) {
        let mut b = Bench::new(1);
        let to: Vec<u32> = (0..self.x.len())
            .map(|a| if self.axes & (1 << a) != 0 { 1 } else { self.x[a] })
            .collect();
        let layout = match self.strides {
            [] => Layout::contiguous(shape(self.x)),
            strides => Layout::new(shape(self.x), strides).unwrap(),
        };
        let span: i64 = (0..self.x.len()).map(|a| i64::from(self.x[a] - 1) * layout.stride(a).abs()).sum();
        let whole = b.tensor(self.dtype, &[self.origin as u32 + span as u32 + 1], Form::Plain);
        let x = View {
            layout,
            origin: whole.origin + self.origin,
            ..whole
        };
        let (y, other) = (b.tensor(self.dtype, &to, Form::Plain), b.tensor(self.dtype, &to, Form::Plain));
        let added = self.added.then_some(Link::With(Binary::Add, other));
        let tail: Vec<Link> = self.tail.iter().map(|&f| Link::Of(f)).chain(added).collect();
        let head = Primitive::Reduce {
            kind: self.kind,
            axes: self.axes,
        };
        let operator = b.operator(head, &[x], &tail, &[y]);
        let target = Target::Cuda { wgmma: true };
        let class = arithmetic_class(&b.plan, &operator, target);
        let tactic = Tactic::of(Kernel::Reduce);
        let (kernel, packs) = b.compile(&Operator { class, tactic, ..operator });
        let placed = Placed::new(&b, &packs, 1 << 40);
        let at = Addresses {
            clusters,
            ..placed.addresses(&b)
        };
        let launch = kernel.launches(&at, &Region::whole(shape(&to)), width).unwrap().remove(0);
        (class.split_k, launch)
    }

    /// The kernel, its blocks and the blocks of a cluster.
    fn launch(&self) -> (String, u32, u32) {
        let (_, launch) = self.launch_of(true, 0);
        (launch.function, launch.blocks, launch.cluster)
    }
}

fn launch(function: &str, blocks: u32, cluster: u32) -> (String, u32, u32) {
    (function.into(), blocks, cluster)
}

const FUNCTION: &[Unary] = &[Unary::Abs];

#[test]
fn a_thread_takes_all_of_a_few_elements() {
    // Queries that are pooled, of heads beside each other.
    let pooled = Reduction {
        strides: &[0, 96, 768, 602_112, 37_632, 1],
        origin: 192,
        ..of(Max, &[1, 2, 49, 4, 16, 96], 0b1000)
    };
    assert_eq!(pooled.launch(), launch("reduce_few_eights", 2 * 49 * 16 * 12 / 128, 1));
    let shifted = Reduction { origin: 193, ..pooled };
    assert_eq!(shifted.launch(), launch("reduce_few_ones", 2 * 49 * 16 * 96 / 128, 1));
    let floats = Reduction {
        dtype: DType::F32,
        ..pooled
    };
    assert_eq!(floats.launch(), launch("reduce_few_ones", 2 * 49 * 16 * 96 / 128, 1));
    assert_eq!(
        of(Mean, &[1, 4, 784, 192], 0b10).launch(),
        launch("reduce_few_eights", 784 * 24 / 128, 1)
    );
    assert_eq!(of(Max, &[40, 9, 24], 0b1).launch(), launch("reduce_columns_twos", 14, 1), "many");
    assert_eq!(of(Max, &[40, 9, 24 * 800], 0b1).launch().0, "reduce_few_eights", "many of many");
    assert_eq!(
        of(Sum, &[40, 9, 24], 0b1).launch(),
        launch("reduce_few_eights", 1, 1),
        "in one range"
    );
    let added = Reduction { added: true, ..pooled };
    assert_eq!(added.launch().0, "reduce_columns_eights", "a tensor is added");
}

#[test]
fn pairs_of_neighbours_are_summed_in_runs_of_ranges() {
    let heads = |x: &'static [u32], strides: &'static [i64]| Reduction {
        strides,
        tail: FUNCTION,
        ..of(Norm, x, 0b1000)
    };
    // Heads beside each other are taken together, also through a function.
    let few = heads(&[1, 4, 48, 196], &[0, 48, 1, 576]);
    assert_eq!((few.launch_of(true, 0).0, few.launch()), (32, launch("reduce_norms_8", 12, 1)));
    assert_eq!(heads(&[1, 8, 20, 256], &[0, 20, 1, 480]).launch(), launch("reduce_norms_8", 10, 1));
    assert_eq!(heads(&[1, 8, 38, 64], &[0, 38, 1, 912]).launch(), launch("reduce_norms_8", 19, 1));
    let added = Reduction { added: true, ..few };
    assert_eq!(added.launch(), launch("reduce_columns_twos", 4 * 3, 1), "a tensor is added");
    assert_eq!(
        heads(&[1, 3, 13, 64], &[0, 13, 1, 39]).launch().0,
        "reduce_columns_eights",
        "no pairs"
    );
    assert_eq!(of(Mean, &[1, 400, 128], 0b10).launch(), launch("reduce_sums_16", 8, 1));
    assert_eq!(
        of(Mean, &[64, 49, 2048], 0b10).launch().0,
        "reduce_columns_eights",
        "enough of eight neighbours"
    );
    // Many ranges are shared by a cluster: as many blocks as runs with elements.
    let many = heads(&[1, 8, 12, 1024], &[0, 12, 1, 288]);
    assert_eq!(
        (many.launch_of(true, 0).0, many.launch()),
        (256, launch("reduce_norms_8", 6 * 8, 8))
    );
    assert_eq!(of(Sum, &[1, 784, 64], 0b10).launch(), launch("reduce_sums_8", 4 * 7, 7));
    assert_eq!(of(Sum, &[1, 3136, 48], 0b10).launch(), launch("reduce_sums_16", 3 * 8, 8));
    let room = |clusters, width| {
        let (_, launch) = many.launch_of(clusters, width);
        (launch.function, launch.blocks, launch.cluster)
    };
    assert_eq!(room(true, 17), launch("reduce_norms_8", 16, 8));
    assert_eq!(room(true, 7), launch("reduce_columns_twos", 7, 1), "no room");
    assert_eq!(room(false, 0), launch("reduce_columns_twos", 96 / 2, 1), "no clusters");
}

#[test]
fn a_lane_takes_a_range_of_a_row() {
    let tokens = |x: &'static [u32], strides: &'static [i64]| Reduction {
        strides,
        tail: FUNCTION,
        ..of(Norm, x, 0b100)
    };
    assert_eq!(tokens(&[1, 784, 64], &[100_352, 128, 1]).launch(), launch("reduce_lanes_2", 25, 1));
    assert_eq!(tokens(&[1, 3136, 48], &[301_056, 96, 1]).launch(), launch("reduce_lanes_2", 98, 1));
    assert_eq!(tokens(&[1, 196, 168], &[65_856, 336, 1]).launch(), launch("reduce_lanes_8", 25, 1));
    assert_eq!(tokens(&[3, 5, 101], &[600, 120, 1]).launch(), launch("reduce_lanes_4", 1, 1));
    assert_eq!(tokens(&[3, 5, 301], &[2000, 400, 1]).launch(), launch("reduce_lanes_16", 4, 1));
    assert_eq!(of(Norm, &[1, 49, 1], 0b10).launch(), launch("reduce_lanes_2", 1, 1));
    assert_eq!(of(Norm, &[1, 3136, 1], 0b10).launch(), launch("reduce_long", 1, 1));
    assert_eq!(
        of(Sum, &[300, 1000], 0b10).launch(),
        launch("reduce_rows", 300 / 8 + 1, 1),
        "enough rows"
    );
    assert_eq!(of(Max, &[30, 60], 0b10).launch(), launch("reduce_short", 1, 1));
    assert_eq!(of(Sum, &[30, 31], 0b10).launch(), launch("reduce_short", 1, 1), "in one range");
    let floats = Reduction {
        dtype: DType::F32,
        ..of(Sum, &[30, 60], 0b10)
    };
    assert_eq!(floats.launch(), launch("reduce_ordered", 1, 1));
}

#[test]
fn reductions_take_neighbours_of_several_axes_together() {
    let blocks = |last, tail| {
        let (operator, launch) = first(&format!("sums of {last} positions of heads side by side of {}, {tail}", DType::F16));
        (operator.class.split_k, launch.function, launch.blocks)
    };
    // Of two samples sixty neighbours, with a function behind them or not.
    for tail in [0, 1] {
        assert_eq!(blocks(40, tail), (32, "reduce_sums_8".into(), 2 * 4));
        assert_eq!(blocks(600, tail), (256, "reduce_columns_eights".into(), 2 * 8));
    }
    // Channels side by side are rows, and pixels no neighbours, whatever the order of the axes says.
    let name = format!("{Norm:?} 10 of [2, 600, 3, 5] {} {:?}", DType::F16, Form::Pixels);
    let (operator, launch) = first(&name);
    assert_eq!((operator.class.split_k, &*launch.function, launch.blocks), (32, "reduce_long", 30));
    // Few of them have a thread a row.
    let name = format!("{Sum:?} 10 of [2, 16, 4, 63] {} {:?}", DType::F16, Form::Pixels);
    let (_, launch) = first(&name);
    assert_eq!((&*launch.function, launch.blocks), ("reduce_short", (2 * 4 * 63u32).div_ceil(128)));
}
