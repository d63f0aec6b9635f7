//! What each kernel of the CUDA backend takes.
//!
//! On a GPU an operator is a head and a tail: its later primitives are elementwise functions of earlier values. What comes
//! before the head, if anything, is a prologue or the copy of a picture; squeeze and excitation alone has layers in its tail,
//! and a convolution may end with maxima. Kernels other than the generic one are listed before it.

use super::attention;
use super::conv_3x3;
use super::conv_affine::{self, AffineTile, Order};
use super::conv_chains::{self, ChainsTile};
use super::conv_direct;
use super::conv_fma::{self, FmaTile};
use super::conv_grouped;
use super::conv_large::{self, LargeTile};
use super::conv_mma::{self, MmaTile};
use super::conv_narrow::{self, NarrowTile};
use super::conv_parts::{self, PartTile};
use super::conv_patch::{self, Kept, PatchTile};
use super::conv_pooled;
use super::conv_shallow::{self, ShallowTile};
use super::conv_slender::{self, SlenderTile};
use super::conv_spread;
use super::conv_taps;
use super::conv_warps::{self, Share, WarpsTile};
use super::conv_wgmma::{self, WgmmaTile};
use super::depthwise_strip;
use super::forms::{before_copy, need};
use super::product::Product;
use super::prologue::Prologue;
use super::prologue_wgmma::{Before, PrologueTile};
use super::stem::{self, StemTile};
use super::stream_wgmma::{self, Rank, StreamTile};
use super::{FMA, Misfit, pair, pictures, plain, pooled, prologue, recurrent, squeeze};
use crate::plan::format::{ArithmeticClass, Family, Kernel, Operand, Operator, Plan, Tactic};
use crate::primitive::Primitive;

/// The class of an operator on a GPU of so many units: tensor cores for what they compute, else sequential fused multiply-adds.
pub(super) fn class(plan: &Plan, operator: &Operator, wgmma: bool, units: u32) -> ArithmeticClass {
    if let Some(class) = warps_class(plan, operator) {
        return class;
    }
    if let Some((Prologue::Affine(_), body)) = prologue::cut(plan, operator) {
        return conv_mma::product(plan, &body).map_or(FMA, |product| ArithmeticClass {
            family: Family::TensorCore,
            split_k: conv_mma::splits(&product),
        });
    }
    let cut = pictures::cut(operator).or_else(|| pooled::cut(operator));
    let body = cut.as_ref().unwrap_or(operator);
    let narrow = || conv_narrow::product(plan, operator).is_ok_and(|p| conv_narrow::leads(&p));
    let shallow = || wgmma && conv_shallow::product(plan, operator).is_ok();
    if cut.is_none() && narrow() && !shallow() {
        return ArithmeticClass {
            family: Family::TensorCore,
            split_k: 1,
        };
    }
    if let Some(product) = conv_wgmma::product(plan, body).ok().filter(|_| wgmma) {
        return ArithmeticClass {
            family: Family::Wgmma,
            split_k: conv_wgmma::splits(&product, units),
        };
    }
    if wgmma && stem::product(plan, body).is_ok() {
        return ArithmeticClass {
            family: Family::Wgmma,
            split_k: 1,
        };
    }
    if wgmma && conv_grouped::product(plan, operator).is_ok() {
        return ArithmeticClass {
            family: Family::Wgmma,
            split_k: 1,
        };
    }
    if conv_parts::product(plan, operator).is_ok() {
        return ArithmeticClass {
            family: Family::TensorCore,
            split_k: 1,
        };
    }
    if let Ok(product) = conv_mma::product(plan, body) {
        return ArithmeticClass {
            family: Family::TensorCore,
            split_k: conv_mma::splits(&product),
        };
    }
    if recurrent::product(plan, operator).is_ok() {
        return ArithmeticClass {
            family: Family::TensorCore,
            split_k: 1,
        };
    }
    squeeze::class(plan, operator)
        .or_else(|| attention::class(operator, wgmma))
        .or_else(|| pair::class(plan, operator))
        .or_else(|| plain::class(plan, operator))
        .unwrap_or(FMA)
}

/// The class of an operator whose K is shared out among warps: it is the operator's where those kernels take it.
fn warps_class(plan: &Plan, operator: &Operator) -> Option<ArithmeticClass> {
    let class = |body: &Operator, prologue: Option<&Prologue>| {
        let product = conv_warps::product(plan, body, prologue);
        product.ok().map(|product| ArithmeticClass {
            family: Family::TensorCore,
            split_k: conv_warps::splits(&product, prologue),
        })
    };
    match prologue::cut(plan, operator) {
        Some((prologue, body)) => class(&body, Some(&prologue)),
        None => class(operator, None),
    }
}

/// All tactics that can run the operator in its class, best first on a GPU of so many units.
pub(super) fn menu(plan: &Plan, operator: &Operator, wgmma: bool, units: u32) -> Vec<Tactic> {
    candidates(plan, operator, units)
        .into_iter()
        .filter(|&tactic| (wgmma || !is_hoppers(tactic)) && fits(tactic, plan, operator).is_ok())
        .collect()
}

/// True for tactics whose blocks have more shared memory than others than Hopper give them, and those that tell clusters apart.
fn is_hoppers(tactic: Tactic) -> bool {
    matches!(
        tactic.kernel,
        Kernel::PrologueWgmma | Kernel::ConvAffine | Kernel::ConvTaps | Kernel::ConvSlender
    ) || tactic.kernel == Kernel::Recurrent && tactic.variant != 0
}

/// Every tactic of the backend, in the order in which the menu prefers them.
fn candidates(plan: &Plan, operator: &Operator, units: u32) -> Vec<Tactic> {
    let split_k = operator.class.split_k;
    if warps_class(plan, operator) == Some(operator.class) {
        return match prologue::cut(plan, operator) {
            Some((prologue, body)) => with_keepers(plan, &body, units, warps(plan, &body, Some(&prologue), units)),
            None => with_slender(
                plan,
                operator,
                units,
                [warps(plan, operator, None, units), vec![conv_taps::TACTIC]].concat(),
            ),
        };
    }
    if let Some((_, body)) = prologue::cut(plan, operator) {
        let tiles = conv_mma::product(plan, &body).map_or(Vec::new(), |p| conv_mma::menu(&p, split_k, true, units));
        return with_keepers(plan, &body, units, tiles);
    }
    let cut = pictures::cut(operator);
    let body = cut.as_ref().unwrap_or(operator);
    let parted = conv_parts::product(plan, operator)
        .ok()
        .filter(|_| operator.class.family == Family::TensorCore);
    let products = match operator.class.family {
        _ if parted.is_some() => parted.map_or(Vec::new(), |p| {
            let spread = conv_spread::menu(operator, &p).into_iter();
            spread.chain(conv_parts::menu(&p, units)).collect()
        }),
        Family::Wgmma => match on_wgmma(plan, body, split_k, units) {
            none if none.is_empty() => others_on_wgmma(plan, body, units),
            tactics => tactics,
        },
        _ => on_mma(plan, body, split_k, units),
    };
    let direct = match cut {
        None => conv_direct::product(plan, operator).map_or(Vec::new(), |p| conv_direct::menu(&p, units)),
        Some(_) => Vec::new(),
    };
    let floats = conv_fma::product(plan, operator).map_or(Vec::new(), |p| conv_fma::menu(&p, units));
    let single = |kernels: &[Kernel]| kernels.iter().copied().map(Tactic::of).collect::<Vec<_>>();
    let (leading, strips) = depthwise_strip::menu(operator, units);
    [
        products,
        direct,
        single(&[Kernel::Prepare, Kernel::Decode]),
        squeeze::tactics().collect(),
        attention::menu(operator),
        pair::menu(operator),
        leading,
        floats,
        single(&plain::KERNELS),
        // The first is among the plain ones.
        recurrent::tactics().skip(1).collect(),
        strips,
        single(&[Kernel::Generic]),
    ]
    .concat()
}

/// The tactics of a product behind a prologue, and those of the kernels that keep its weights.
fn with_keepers(plan: &Plan, body: &Operator, units: u32, tactics: Vec<Tactic>) -> Vec<Tactic> {
    let keepers = PrologueTile::tactics().chain(AffineTile::tactics()).collect();
    match conv_mma::product(plan, body).is_ok_and(|p| conv_affine::leads(&p, units)) {
        true => [keepers, tactics].concat(),
        false => [tactics, keepers].concat(),
    }
}

/// The tactics of a product of few pixels, and those of the kernels that compute it by `wgmma`.
fn with_slender(plan: &Plan, operator: &Operator, units: u32, tactics: Vec<Tactic>) -> Vec<Tactic> {
    match conv_slender::product(plan, operator) {
        Ok(p) if conv_slender::leads(&p, units) => [conv_slender::menu(&p, units), tactics].concat(),
        Ok(p) => [tactics, conv_slender::menu(&p, units)].concat(),
        Err(_) => tactics,
    }
}

/// The tactics of the kernels whose warps share out K, best first.
fn warps(plan: &Plan, body: &Operator, prologue: Option<&Prologue>, units: u32) -> Vec<Tactic> {
    conv_warps::product(plan, body, prologue).map_or(Vec::new(), |p| conv_warps::menu(&p, prologue, units))
}

/// The tactics of the kernels that multiply by `mma.sync`, best first.
fn on_mma(plan: &Plan, operator: &Operator, split_k: u16, units: u32) -> Vec<Tactic> {
    let tiles = conv_mma::product(plan, operator).map_or(Vec::new(), |p| conv_mma::menu(&p, split_k, false, units));
    match conv_narrow::product(plan, operator) {
        Ok(product) if conv_narrow::leads(&product) => [conv_narrow::menu(&product), tiles].concat(),
        Ok(product) => [tiles, conv_narrow::menu(&product)].concat(),
        Err(_) => tiles,
    }
}

/// The tactics of the kernels that multiply by `wgmma`, best first.
fn on_wgmma(plan: &Plan, operator: &Operator, split_k: u16, units: u32) -> Vec<Tactic> {
    if let Some(body) = pooled::cut(operator) {
        return conv_3x3::product(plan, &body).map_or(Vec::new(), |p| [on_patches(&p, split_k, units), vec![conv_pooled::TACTIC]].concat());
    }
    let Ok(product) = conv_wgmma::product(plan, operator) else {
        return Vec::new();
    };
    let tiles = conv_wgmma::menu(&product, split_k, units);
    let patches = conv_3x3::product(plan, operator).map_or(Vec::new(), |p| on_patches(&p, split_k, units));
    let keeps_weights = |t: &Tactic| PatchTile::of(*t).is_some_and(|e| matches!(e.kept, Kept::Weights { .. }));
    let leads = |t: &Tactic| t.kernel == Kernel::ConvChains || keeps_weights(t);
    let tiles = match patches.first().is_some_and(leads) {
        true => [patches, tiles].concat(),
        false => [tiles, patches].concat(),
    };
    let shallow = conv_shallow::product(plan, operator).map_or(Vec::new(), |p| conv_shallow::menu(&p, split_k, units));
    let slender = conv_slender::product(plan, operator).map_or(Vec::new(), |p| conv_slender::menu(&p, units));
    let tiles = [shallow, slender, tiles, conv_large::menu(&product, split_k, units)].concat();
    match stream_wgmma::menu(&product) {
        (streams, Rank::Alone) => streams,
        (streams, Rank::First) => [streams, tiles].concat(),
        (streams, Rank::Last) => [tiles, streams].concat(),
    }
}

/// The tactics of the kernels that alone compute what they take by `wgmma`: first layers and grouped convolutions.
fn others_on_wgmma(plan: &Plan, operator: &Operator, units: u32) -> Vec<Tactic> {
    match conv_grouped::product(plan, operator) {
        Ok(grouped) => conv_grouped::menu(&grouped, units),
        Err(_) => stem::product(plan, operator).map_or(Vec::new(), |p| stem::menu(&p, units)),
    }
}

/// The tactics of the kernels whose taps share patches of pixels, best first.
fn on_patches(product: &Product<'_>, split_k: u16, units: u32) -> Vec<Tactic> {
    let patches = conv_patch::menu(product, split_k, units);
    match conv_chains::menu(product, split_k, units) {
        (chains, true) => [chains, patches].concat(),
        (chains, false) => [patches, chains].concat(),
    }
}

/// Checks that a kernel whose taps share patches takes a product.
fn shares_patches(tactic: Tactic, product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    match tactic.kernel {
        Kernel::ConvChains => conv_chains::fits(ChainsTile::of(tactic).ok_or(Misfit::Tile)?, product, split_k),
        _ => conv_patch::fits(PatchTile::of(tactic).ok_or(Misfit::Tile)?, product, split_k),
    }
}

/// The table.
pub(super) fn fits(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    if tactic.kernel == Kernel::ConvWarps {
        let entry = WarpsTile::of(tactic).ok_or(Misfit::Tile)?;
        need(warps_class(plan, operator) == Some(operator.class), Misfit::Class)?;
        let (prologue, body) = prologue::cut(plan, operator).unzip();
        let body = body.as_ref().unwrap_or(operator);
        let product = conv_warps::product(plan, body, prologue.as_ref())?;
        need(entry.serves(Share::of(&product, prologue.as_ref())), Misfit::Tile)?;
        return tail(body);
    }
    if matches!(tactic.kernel, Kernel::ConvAffine | Kernel::PrologueWgmma) {
        return keeper(tactic, plan, operator);
    }
    if tactic.kernel == Kernel::ConvTaps {
        need(tactic == conv_taps::TACTIC, Misfit::Tile)?;
        need(warps_class(plan, operator) == Some(operator.class), Misfit::Class)?;
        conv_taps::product(plan, operator)?;
        return tail(operator);
    }
    if tactic.kernel == Kernel::ConvSlender {
        SlenderTile::of(tactic).ok_or(Misfit::Tile)?;
        let product = conv_slender::product(plan, operator)?;
        conv_slender::fits(&product, warps_class(plan, operator), operator.class)?;
        return tail(operator);
    }
    if let Some((prologue, body)) = prologue::cut(plan, operator) {
        tail(&body)?;
        need(operator.class.family == Family::TensorCore, Misfit::Class)?;
        need(matches!(prologue, Prologue::Affine(_)), Misfit::Tile)?;
        let entry = MmaTile::of(tactic).ok_or(Misfit::Tile)?;
        return conv_mma::fits(entry, &conv_mma::product(plan, &body)?, operator.class.split_k, true);
    }
    let cut = pictures::cut(operator);
    let body = cut.as_ref().unwrap_or(operator);
    let first = body.calls.first().ok_or(Misfit::Primitive)?;
    if tactic.kernel == Kernel::Squeeze {
        return squeeze::fits(tactic, plan, operator);
    }
    if let Some(body) = pooled::cut(operator) {
        need(!PatchTile::of(tactic).is_some_and(PatchTile::is_wide), Misfit::Tile)?;
        need(operator.class.family == Family::Wgmma, Misfit::Class)?;
        let (product, split_k) = (conv_3x3::product(plan, &body)?, operator.class.split_k);
        return match tactic.kernel {
            Kernel::ConvPooled => conv_pooled::fits(tactic, operator, &product, split_k),
            _ => shares_patches(tactic, &product, split_k),
        };
    }
    tail(body)?;
    need(family(tactic.kernel, operator) == operator.class.family, Misfit::Class)?;
    use Primitive as P;
    match (tactic.kernel, &first.primitive) {
        (Kernel::ConvMma, P::Conv { .. } | P::MatMul) => {
            let entry = MmaTile::of(tactic).ok_or(Misfit::Tile)?;
            conv_mma::fits(entry, &conv_mma::product(plan, body)?, operator.class.split_k, false)
        }
        (Kernel::ConvNarrow, P::Conv { .. }) if cut.is_none() => {
            let entry = NarrowTile::of(tactic).ok_or(Misfit::Tile)?;
            conv_narrow::fits(entry, &conv_narrow::product(plan, operator)?, operator.class.split_k)
        }
        (Kernel::ConvParts, P::Conv { .. } | P::ConvTranspose { .. }) => {
            need(PartTile::of(tactic).is_some(), Misfit::Tile)?;
            need(operator.class.split_k <= 1, Misfit::Class)?;
            conv_parts::product(plan, operator).map(|_| ())
        }
        (Kernel::ConvDirect, P::Conv { .. } | P::MatMul) if cut.is_none() => conv_direct::fits(tactic, plan, operator),
        (Kernel::ConvSpread, P::ConvTranspose { .. }) => {
            need(tactic == conv_spread::TACTIC, Misfit::Tile)?;
            need(operator.class.split_k <= 1, Misfit::Class)?;
            conv_spread::fits(operator, &conv_parts::product(plan, operator)?)
        }
        (Kernel::ConvFma, P::Conv { .. } | P::MatMul) => {
            need(FmaTile::of(tactic).is_some(), Misfit::Tile)?;
            need(operator.class.split_k <= 1, Misfit::Class)?;
            plain::floats(operator)?;
            conv_fma::product(plan, operator).map(|_| ())
        }
        (Kernel::Stem, P::Conv { .. }) => {
            let entry = StemTile::of(tactic).ok_or(Misfit::Tile)?;
            need(operator.class.split_k <= 1, Misfit::Class)?;
            stem::fits(entry, &stem::product(plan, body)?)
        }
        // Only kernels that read a picture as it is take the copy of one.
        _ if cut.is_some() => Err(Misfit::Primitive),
        (Kernel::ConvWgmma, P::Conv { .. } | P::MatMul) => {
            let entry = WgmmaTile::of(tactic).ok_or(Misfit::Tile)?;
            need(entry.finishes(operator), Misfit::Tile)?;
            conv_wgmma::fits(entry, &conv_wgmma::product(plan, operator)?, operator.class.split_k)
        }
        (Kernel::ConvLarge, P::Conv { .. } | P::MatMul) => {
            LargeTile::of(tactic).ok_or(Misfit::Tile)?;
            conv_large::fits(&conv_wgmma::product(plan, operator)?, operator.class.split_k)
        }
        (Kernel::ConvPatch | Kernel::ConvChains, P::Conv { .. }) => {
            shares_patches(tactic, &conv_3x3::product(plan, operator)?, operator.class.split_k)
        }
        (Kernel::ConvShallow, P::Conv { .. }) => {
            let entry = ShallowTile::of(tactic).ok_or(Misfit::Tile)?;
            conv_shallow::fits(entry, &conv_shallow::product(plan, operator)?, operator.class.split_k)
        }
        (Kernel::ConvGrouped, P::Conv { .. }) => {
            need(operator.class.split_k <= 1, Misfit::Class)?;
            conv_grouped::fits(tactic, &conv_grouped::product(plan, operator)?)
        }
        (Kernel::StreamWgmma, P::Conv { .. } | P::MatMul) => {
            let entry = StreamTile::of(tactic).ok_or(Misfit::Tile)?;
            let product = stream_wgmma::product(plan, operator)?;
            conv_wgmma::chains(&product, operator.class.split_k)?;
            need(entry.serves(&product, operator.class.split_k), Misfit::Tile)
        }
        (Kernel::Recurrent, P::Lstm { .. } | P::Gru { .. }) if operator.class.family == Family::TensorCore => {
            recurrent::fits(tactic, plan, operator)
        }
        (Kernel::AttentionMma | Kernel::AttentionWgmma, P::Attention { .. }) => attention::fits(tactic, operator),
        (Kernel::PairMma, P::MatMul) => pair::fits(tactic, plan, operator),
        (Kernel::Prepare, P::Prepare(_) | P::Crop(_))
        | (Kernel::Decode, P::DecodeYolox { .. } | P::Nms(_) | P::TopK | P::ArgMax { .. }) => {
            need(tactic == Tactic::of(tactic.kernel), Misfit::Tile)?;
            need(operator.calls.len() == 1, Misfit::Tail)
        }
        (Kernel::ConvDepthwise, P::Conv { .. }) if tactic != Tactic::of(tactic.kernel) => {
            plain::fits(Tactic::of(tactic.kernel), plan, operator)?;
            depthwise_strip::fits(tactic, operator)
        }
        _ => plain::fits(tactic, plan, operator),
    }
}

/// Checks that a kernel which keeps its weights behind a prologue has the order of K of the operator's class.
fn keeper(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    let (prologue, body) = prologue::cut(plan, operator).ok_or(Misfit::Primitive)?;
    tail(&body)?;
    let product = conv_mma::product(plan, &body)?;
    let order = match warps_class(plan, operator) {
        Some(class) => (class == operator.class).then_some(Order::Pieces),
        None => (operator.class.family == Family::TensorCore && operator.class.split_k == 1).then_some(Order::Ascending),
    };
    let (before, keeps) = match (AffineTile::of(tactic), PrologueTile::of(tactic)) {
        (Some(entry), _) => (Before::Affine(entry.order), entry.depth(product.k()).is_some()),
        (_, Some(entry)) => (entry.before, entry.keeps(product.k()) && conv_wgmma::product(plan, &body).is_ok()),
        _ => return Err(Misfit::Tile),
    };
    need(before.is(&prologue), Misfit::Primitive)?;
    need(order == Some(before.order()), Misfit::Class)?;
    need(keeps, Misfit::Tile)
}

/// The instruction family that a kernel computes the operator in. Recurrent layers have a kernel in two of them.
fn family(kernel: Kernel, operator: &Operator) -> Family {
    match kernel {
        Kernel::Recurrent if operator.class.family == Family::TensorCore => Family::TensorCore,
        // Of either.
        Kernel::ConvDirect if operator.class.family == Family::Wgmma => Family::Wgmma,
        Kernel::ConvDirect
        | Kernel::ConvMma
        | Kernel::ConvNarrow
        | Kernel::ConvParts
        | Kernel::ConvSpread
        | Kernel::AttentionMma
        | Kernel::PairMma => Family::TensorCore,
        Kernel::ConvWgmma | Kernel::StreamWgmma | Kernel::Stem | Kernel::AttentionWgmma => Family::Wgmma,
        Kernel::ConvPatch | Kernel::ConvChains | Kernel::ConvShallow | Kernel::ConvGrouped | Kernel::ConvLarge | Kernel::ConvPooled => {
            Family::Wgmma
        }
        _ => Family::Fma,
    }
}

/// Every call behind the first is an elementwise function or, at the end, a copy; only such calls read inner values.
fn tail(operator: &Operator) -> Result<(), Misfit> {
    let inner = |o: &Operand| matches!(o, Operand::Inner(_));
    let (first, later) = operator.calls.split_first().ok_or(Misfit::Primitive)?;
    need(!first.inputs.iter().any(inner), Misfit::Tail)?;
    let elementwise = before_copy(operator)
        .iter()
        .skip(1)
        .all(|c| matches!(c.primitive, Primitive::Unary(_) | Primitive::Binary(_)) && c.shape == first.shape);
    need(elementwise && (later.is_empty() || operator.outputs.len() == 1), Misfit::Tail)
}
