//! Attention on tensor cores: what its kernels take, how many strands share out the keys, and how many queries a block has.

use super::Misfit;
use super::forms::need;
use crate::plan::format::{ArithmeticClass, Family, Kernel, Operand, Operator, Tactic, View};
use crate::primitive::Primitive;
use crate::tensor::DType;

/// Queries that a warp multiplies at once.
pub const QUERIES: u32 = 16;
/// Most elements of a key. Values may have any number: longer ones are cut, and the scores computed again for each part.
pub const MAX_DEPTH: u32 = 128;
/// Elements of a key and of a value that there are kernels for, the cheaper ones first.
const HEADS: [Head; 5] = [head(16, 32), head(32, 32), head(64, 64), head(96, 96), head(128, 128)];
/// What walking the keys once more costs beside the products, in elements of a key.
const WALK: u32 = 64;
/// Strands where queries are few.
const STRANDS: u16 = 4;
/// Tiles of a sample, of so many queries each, from which on a GPU is full without strands.
const FULL: (u64, u32) = (133, 64);
/// Most keys that are not worth sharing out.
const FEW_KEYS: u32 = 64;
/// Heads and keys that the kernels of narrow heads are faster for.
const NARROW: (u32, u32) = (16, 64);
/// Blocks without strands, and with strands, the larger ones first.
const WHOLE: [Block; 2] = [block(4, 2), block(4, 1)];
const SHARED: [Block; 3] = [block(2, 2), block(2, 1), block(1, 1)];
/// Most elements of a key of which a warp keeps two sixteens of queries in its registers.
const TWICE_DEPTH: u32 = 64;
/// Blocks that occupy a large GPU, and of those whose warps have twice the queries: smaller ones only where there would be fewer.
const OCCUPIED: [u64; 2] = [80, 320];

/// Queries of a warpgroup.
const WGMMA_QUERIES: u32 = 64;
/// Keys of a block that warpgroups walk.
pub const WGMMA_KEYS: u32 = 64;
/// Elements of a key and of a value that there are warpgroup kernels for, and the most of which strands have room.
const PANELS: [u32; 2] = [64, 128];
/// The teams of warpgroups.
pub const TEAMS: [Team; 5] = [
    team(1, 2),
    team(1, 1),
    team(STRANDS, 1),
    Team {
        crowded: true,
        ..team(1, 1)
    },
    Team {
        abreast: true,
        ..team(STRANDS, 1)
    },
];
/// Most keys that warpgroups do not share out, unlike warps.
const FEW_BLOCKS: u32 = 4 * WGMMA_KEYS;
/// Blocks of one warpgroup that a large GPU has room for at once: where there are more, two warpgroups share keys.
const ROOM: u64 = 396;
/// Blocks of four warpgroups that a large GPU has room for at once: where there are more, keys are walked.
const ROOM_ABREAST: u64 = 132;

/// How warpgroups share out queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Team {
    /// Parts of the keys at once.
    pub strands: u16,
    /// Warpgroups of a strand.
    pub groups: u16,
    /// Shared memory and registers for as many warpgroups on a multiprocessor as find room, each with fewer blocks ahead.
    pub crowded: bool,
    /// Strands with a block of keys each, which add up with the bits of one that walks them all.
    pub abreast: bool,
}

const fn team(strands: u16, groups: u16) -> Team {
    Team {
        strands,
        groups,
        crowded: false,
        abreast: false,
    }
}

impl Team {
    /// The team that a tactic names.
    pub fn of(tactic: Tactic) -> Option<Team> {
        TEAMS.into_iter().find(|t| tactic == t.tactic())
    }

    /// Its queries.
    pub fn queries(self) -> u32 {
        WGMMA_QUERIES * u32::from(self.groups)
    }

    /// Its threads: 128 a warpgroup.
    pub fn threads(self) -> u32 {
        128 * u32::from(self.strands * self.groups)
    }

    /// Blocks of keys, and of values, that a strand has in shared memory.
    pub fn stages(self, head: u32) -> u32 {
        if self.abreast {
            1
        } else if self.crowded || self.strands > 1 || head > PANELS[0] {
            2
        } else {
            4
        }
    }

    /// Blocks that share a multiprocessor, of a head of [`Matrices::panels`] and with a mask or not.
    pub fn together(self, head: u32, masked: bool) -> u32 {
        match (self.strands, self.groups) {
            (1, 1) if self.crowded => 4,
            (1, 1) if head == PANELS[0] && !masked => 3,
            (1, _) => 2,
            _ => 1,
        }
    }

    /// True if there is a kernel for a head of [`Matrices::panels`].
    pub fn serves(self, head: u32) -> bool {
        self == team(1, 1) || self.abreast || head == PANELS[0]
    }

    /// Strands that the class of an operator of so many keys must have for it; `None` where it serves none.
    fn splits(self, keys: u32) -> Option<u16> {
        match self.abreast {
            true => (keys > WGMMA_KEYS && keys <= WGMMA_KEYS * u32::from(self.strands)).then_some(1),
            false => Some(self.strands),
        }
    }

    fn tactic(self) -> Tactic {
        Tactic {
            tile: (self.queries() as u16, self.strands),
            variant: u16::from(self.crowded) + 2 * u16::from(self.abreast),
            ..Tactic::of(Kernel::AttentionWgmma)
        }
    }
}

/// How the queries of a block are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Warps of a strand.
    pub groups: u16,
    /// Sixteens of queries of a warp.
    pub tiles: u16,
}

const fn block(groups: u16, tiles: u16) -> Block {
    Block { groups, tiles }
}

impl Block {
    /// The block that a tactic names.
    pub fn of(tactic: Tactic, strands: u16) -> Option<Block> {
        let all: &[Block] = if strands > 1 { &SHARED } else { &WHOLE };
        let named = |b: &&Block| tactic == b.tactic();
        all.iter().find(named).copied()
    }

    /// Its queries.
    pub fn queries(self) -> u32 {
        QUERIES * u32::from(self.groups * self.tiles)
    }

    fn tactic(self) -> Tactic {
        Tactic {
            tile: (self.queries() as u16, 0),
            ..Tactic::of(Kernel::AttentionMma)
        }
    }
}

/// The extents that a kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Most elements of a key.
    pub depth: u32,
    /// Elements of a value, or of a part of one.
    pub width: u32,
}

const fn head(depth: u32, width: u32) -> Head {
    Head { depth, width }
}

impl Head {
    /// The head that serves keys and values of so many elements at the least cost: from the shape alone, as the blocks of keys
    /// follow from it.
    pub fn of(depth: u32, width: u32) -> Option<Head> {
        let cost = |h: &Head| width.div_ceil(h.width) * (h.depth + h.width + WALK);
        HEADS.into_iter().filter(|h| h.depth >= depth).min_by_key(cost)
    }

    /// Keys of a block: those whose scores a warp holds at once.
    pub fn keys(self, strands: u16) -> u32 {
        match strands {
            1 => 64,
            _ if self.depth + self.width <= 128 => 32,
            _ => 16,
        }
    }
}

/// An attention of halves.
pub struct Matrices<'a> {
    /// The queries, keys and values.
    pub inputs: [&'a View; 3],
    /// What is added to the scores.
    pub mask: Option<&'a View>,
    /// The output.
    pub output: &'a View,
    /// The kernel's extents.
    pub head: Head,
}

impl Matrices<'_> {
    /// Elements of a key and of a value, or a part of one, of the warpgroup kernels that take it.
    pub fn panels(&self) -> Option<u32> {
        let last = |v: &View| v.layout.shape.dim(v.layout.shape.rank() - 1);
        let (depth, width) = (last(self.inputs[0]), last(self.output));
        let [least, most] = PANELS;
        (depth <= most).then_some(if depth.max(width) <= least { least } else { most })
    }

    /// Matrices of all samples.
    fn count(&self) -> u64 {
        let shape = self.output.layout.shape;
        (0..shape.rank() - 2).map(|a| u64::from(shape.dim(a))).product()
    }

    /// Keys of a matrix.
    fn keys(&self) -> u32 {
        let shape = self.inputs[1].layout.shape;
        shape.dim(shape.rank() - 1)
    }

    fn rows(&self) -> u32 {
        let shape = self.output.layout.shape;
        shape.dim(shape.rank() - 2)
    }
}

/// Reads the operator; says what it lacks.
pub fn matrices(operator: &Operator) -> Result<Matrices<'_>, Misfit> {
    let [call] = operator.calls.as_slice() else {
        return Err(Misfit::Tail);
    };
    need(matches!(call.primitive, Primitive::Attention { .. }), Misfit::Primitive)?;
    let view = |index: usize| match call.inputs.get(index) {
        Some(Operand::View(view)) => Ok(view),
        _ => Err(Misfit::Primitive),
    };
    let inputs = [view(0)?, view(1)?, view(2)?];
    let mask = (call.inputs.len() > 3).then(|| view(3)).transpose()?;
    let output = operator.outputs.first().ok_or(Misfit::Primitive)?;
    let mut all = inputs.into_iter().chain(mask).chain([output]);
    let whole = |v: &View| v.dtype == DType::F16 && v.layout.shape.rank() >= 2 && v.layout.shape.elements() > 0;
    need(all.all(whole), Misfit::Type)?;
    let last = |v: &View| v.layout.shape.dim(v.layout.shape.rank() - 1);
    let (depth, count, width) = (last(inputs[0]), last(inputs[1]), last(output));
    let narrow = depth.max(width) <= NARROW.0 && count <= NARROW.1 && mask.is_none();
    need(!narrow, Misfit::Class)?;
    let head = Head::of(depth, width).ok_or(Misfit::Layout)?;
    Ok(Matrices {
        inputs,
        mask,
        output,
        head,
    })
}

/// Keys that a strand walks, in whole blocks, once for each panel of a head; `None` of what is no attention of halves.
pub fn walked(operator: &Operator) -> Option<u64> {
    let it = matrices(operator).ok()?;
    let strands = Team::of(operator.tactic).map_or(operator.class.split_k.max(1), |team| team.strands);
    let blocks = it.keys().div_ceil(WGMMA_KEYS).div_ceil(u32::from(strands));
    let panels = it.panels().unwrap_or(PANELS[1]).div_ceil(PANELS[0]);
    Some(u64::from(blocks * WGMMA_KEYS) * u64::from(panels))
}

/// The class of the attentions that the kernels take.
pub(super) fn class(operator: &Operator, wgmma: bool) -> Option<ArithmeticClass> {
    let it = matrices(operator).ok()?;
    let (shape, rank) = (it.output.layout.shape, it.output.layout.shape.rank());
    // Of a matrix alone the batch axis is the rows.
    let rows = if rank > 2 { shape.dim(rank - 2) } else { 1 };
    let leading: u64 = (1..rank.saturating_sub(2)).map(|a| u64::from(shape.dim(a))).product();
    let keys = it.keys();
    let few = leading * u64::from(rows.div_ceil(FULL.1)) < FULL.0;
    let (family, enough) = match it.panels().filter(|_| wgmma) {
        Some(head) => (Family::Wgmma, keys > FEW_BLOCKS && head == PANELS[0]),
        None => (Family::TensorCore, keys > FEW_KEYS),
    };
    Some(ArithmeticClass {
        family,
        split_k: if few && enough { STRANDS } else { 1 },
    })
}

/// The tactics of the kernels, best first.
pub(super) fn menu(operator: &Operator) -> Vec<Tactic> {
    let Ok(it) = matrices(operator) else { return Vec::new() };
    if operator.class.family == Family::Wgmma {
        return teams(&it, operator.class.split_k);
    }
    let all: &[Block] = if operator.class.split_k > 1 { &SHARED } else { &WHOLE };
    let occupies = |b: &&Block| it.count() * u64::from(it.rows().div_ceil(b.queries())) >= OCCUPIED[usize::from(b.tiles > 1)];
    let fits = |b: &&Block| b.tiles == 1 || it.head.depth <= TWICE_DEPTH;
    let (full, rest): (Vec<&Block>, Vec<&Block>) = all.iter().filter(fits).partition(occupies);
    // Of those that leave multiprocessors idle the smallest is best.
    full.into_iter().chain(rest.into_iter().rev()).map(|b| b.tactic()).collect()
}

/// The teams of warpgroups, best first: with the same bits.
fn teams(it: &Matrices<'_>, split_k: u16) -> Vec<Tactic> {
    let Some(head) = it.panels() else { return Vec::new() };
    let blocks = |t: Team| it.count() * u64::from(it.rows().div_ceil(t.queries()));
    let serves = |t: &Team| t.serves(head) && t.splits(it.keys()).is_some_and(|splits| splits == 1 || splits == split_k);
    let [pairs, single, strands, crowded, abreast] = TEAMS;
    let order = match split_k {
        1 if blocks(abreast) <= ROOM_ABREAST => [abreast, single, pairs, crowded, strands],
        1 if blocks(single) <= ROOM => [single, pairs, crowded, abreast, strands],
        1 => [pairs, crowded, single, abreast, strands],
        _ => [strands, pairs, single, crowded, abreast],
    };
    order.into_iter().filter(serves).map(Team::tactic).collect()
}

/// Checks that the kernels take the operator in its class with such a tile.
pub(super) fn fits(tactic: Tactic, operator: &Operator) -> Result<(), Misfit> {
    matrices(operator)?;
    need(matches!(operator.class.split_k, 1 | STRANDS), Misfit::Class)?;
    need(menu(operator).contains(&tactic), Misfit::Tile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_cover_their_keys_and_the_cheapest_is_taken() {
        let of = |depth, width| Head::of(depth, width).map(|h| (h.depth, h.width));
        assert_eq!(of(4, 32), Some((16, 32)));
        assert_eq!(of(64, 64), Some((64, 64)));
        assert_eq!(of(80, 80), Some((96, 96)));
        // Few wide walks over long values.
        assert_eq!(of(64, 512), Some((128, 128)));
        assert_eq!(of(129, 8), None);
        let smallest = |strands| HEADS.iter().map(|h| h.keys(strands)).min();
        assert_eq!((smallest(1), smallest(4)), (Some(64), Some(16)));
    }

    #[test]
    fn tactics_name_teams() {
        for team in TEAMS {
            assert_eq!(Team::of(team.tactic()), Some(team));
        }
        assert_eq!(Team::of(block(4, 1).tactic()), None);
    }
}
