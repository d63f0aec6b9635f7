//! What the halves need to know of a board: the record in the plan table, and the fingerprint that binds plans to it.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Which backend runs a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// The processor: always built; reference and oracle.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
}

/// A board as plans see it. Written by the planner from `boards/<name>.toml`, read on board from the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardRecord {
    /// Name, as on the command line.
    pub name: String,
    /// Backend that runs the board's plans unless told otherwise.
    pub backend: BackendKind,
    /// Processor architecture or GPU architecture the plans were made for (`x86_64`, `aarch64`, `sm_90a`): hard fingerprint.
    pub architecture: String,
    /// Units that run blocks side by side: CPU workers, or SMs. Hard fingerprint on a GPU; on the CPU backend the
    /// largest launch width, clamped to the team at hand.
    pub units: u32,
    /// Bytes for arena, slots and weight packings together.
    pub memory_budget: u64,
    /// Sustained multiply-adds a nanosecond of all units, for estimates: of f32 on the CPU backend, of f16 on a GPU.
    pub macs_per_ns: f32,
    /// Sustained memory bytes a nanosecond of all units, for estimates.
    pub bytes_per_ns: f32,
    /// Cost of issuing one operator, for estimates.
    pub issue: Nanos,
}

/// How a board's units can be divided between streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Units.
    pub units: u32,
    /// Units are set aside in multiples of this; 0 where they cannot be.
    pub parcel: u32,
}

/// SMs of a parcel, and fewest parcels of a board that is divided.
const PARCEL: u32 = 8;
const FEWEST: u32 = 8;

impl Division {
    /// The division of a board: GPUs of sm_90 and newer set SMs aside by eights ("Green Contexts" in the CUDA driver's reference). Older ones
    /// might by fours, but neither that nor what it brings was seen. Of an H200's SMs, 132 and 64 that were set aside before were
    /// divided, 16 were not to be. Workers of the CPU backend are not set aside.
    pub fn of(board: &BoardRecord) -> Division {
        let digits = board.architecture.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic);
        let parcel = match (board.backend, digits.parse::<u32>()) {
            (BackendKind::Cuda, Ok(90..)) if board.units >= FEWEST * PARCEL => PARCEL,
            _ => 0,
        };
        Division {
            units: board.units,
            parcel,
        }
    }

    /// Parcels that the units would be if all of them lay in whole ones.
    pub fn parcels(&self) -> u32 {
        self.units.checked_div(self.parcel).unwrap_or(0)
    }

    /// Whole parcels that there are on every GPU of the kind. The SMs of a parcel lie in one graphics processing cluster
    /// of up to 18, and how many of these are at work differs from GPU to GPU: an H200 of 132 was seen with 15 parcels and 12 SMs that
    /// are none, and if three of its eight such clusters lacked four SMs, it would have 13.
    pub fn sure(&self) -> u32 {
        self.parcels() * 3 / 4
    }

    /// The numbers of units that one of several streams may have for itself, ascending: whole parcels, and these with the units that are none.
    pub fn sizes(&self) -> Vec<u32> {
        let Some(rest) = self.units.checked_rem(self.parcel) else {
            return Vec::new();
        };
        let whole = (1..self.parcels()).map(|parcels| parcels * self.parcel);
        let mut sizes: Vec<u32> = whole.flat_map(|own| [own, own + rest]).collect();
        sizes.dedup();
        sizes
    }

    /// Of streams confined to so many units each, 0 to all: the one that has what is no parcel besides. It is the largest, where all units
    /// are shared out.
    pub fn has_rest(&self, confined: impl Iterator<Item = u16> + Clone) -> Option<usize> {
        let all: u32 = confined.clone().map(u32::from).sum();
        largest(confined).filter(|_| all == self.units)
    }

    /// The units of streams that have so many parcels each, 0 for all: where that is all parcels, the one that has the rest has it too.
    pub fn units_of(&self, parcels: &[u32]) -> Vec<u16> {
        let whole = |&own: &u32| u16::try_from(own * self.parcel).unwrap_or(0);
        let mut units: Vec<u16> = parcels.iter().map(whole).collect();
        let are_all = self.parcel > 0 && parcels.iter().sum::<u32>() == self.parcels();
        if let Some(largest) = largest(units.iter().copied()).filter(|_| are_all) {
            units[largest] += (self.units % self.parcel) as u16;
        }
        units
    }

    /// Whether streams that are confined to so many units each, 0 to all, can be so on every GPU of the kind: each has whole parcels, and
    /// the one that has the rest at least one.
    pub fn allows(&self, confined: impl Iterator<Item = u16> + Clone) -> bool {
        if confined.clone().all(|own| own == 0) {
            return true;
        }
        let rest = self.has_rest(confined.clone());
        let others = confined
            .enumerate()
            .filter(|(stream, _)| Some(*stream) != rest)
            .map(|(_, own)| u32::from(own));
        let whole = self.parcel > 0 && others.clone().all(|own| own.is_multiple_of(self.parcel));
        whole && others.sum::<u32>() / self.parcel + u32::from(rest.is_some()) <= self.sure()
    }
}

/// The largest, the first of equals.
fn largest(confined: impl Iterator<Item = u16>) -> Option<usize> {
    let (largest, _) = confined.enumerate().max_by_key(|&(stream, own)| (own, std::cmp::Reverse(stream)))?;
    Some(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_set_aside_in_parcels_and_the_largest_has_the_rest() {
        let h200 = Division { units: 132, parcel: 8 };
        assert_eq!(h200.parcels(), 16);
        let allows = |division: Division, confined: &[u16]| division.allows(confined.iter().copied());
        for good in [
            &[0u16, 0][..],
            &[64, 0],
            &[64, 68],
            &[68, 64],
            &[8, 124],
            &[64, 32],
            &[96, 0],
            &[32, 0, 100],
            &[32, 68, 32],
        ] {
            assert!(allows(h200, good), "{good:?}");
        }
        // No parcels, two rests, more units than there are, and more parcels than are sure.
        for bad in [&[4u16, 0][..], &[66, 66], &[64, 72], &[136], &[104, 0], &[44, 44, 44], &[16; 8]] {
            assert!(!allows(h200, bad), "{bad:?}");
        }
        assert_eq!(h200.has_rest([32, 68, 32].into_iter()), Some(1));
        assert_eq!(h200.has_rest([32, 64, 32].into_iter()), None);
        let sizes = h200.sizes();
        assert_eq!((sizes[..5].to_vec(), sizes.last()), (vec![8, 12, 16, 20, 24], Some(&124)));
        let all = (1..131).map(|own| [own, 132 - own]).filter(|units| allows(h200, units));
        assert!(all.flatten().all(|units| sizes.contains(&units.into())));
        let few = Division { units: 32, parcel: 8 };
        assert_eq!(few.sizes(), [8, 16, 24]);
        assert_eq!(few.has_rest([16, 16].into_iter()), Some(0));
        assert!(allows(few, &[16, 16]) && allows(few, &[8, 24]) && !allows(few, &[4, 28]) && !allows(few, &[8; 4]));
        let none = Division { units: 8, parcel: 0 };
        assert_eq!(none.sizes(), [] as [u32; 0]);
        assert!(allows(none, &[0, 0]) && !allows(none, &[8]));
    }

    #[test]
    fn boards_say_how_they_divide() {
        let parcel = |backend, architecture: &str, units| {
            let board = BoardRecord {
                name: String::new(),
                backend,
                architecture: architecture.to_string(),
                units,
                memory_budget: 0,
                macs_per_ns: 1.0,
                bytes_per_ns: 1.0,
                issue: Nanos(1),
            };
            Division::of(&board).parcel
        };
        let gpus = ["sm_87", "sm_89", "sm_90a", "sm_110a"].map(|a| parcel(BackendKind::Cuda, a, 132));
        assert_eq!(gpus, [0, 0, 8, 8]);
        assert_eq!(
            [16, 56, 64].map(|units| parcel(BackendKind::Cuda, "sm_90a", units)),
            [0, 0, 8],
            "too few"
        );
        assert_eq!(parcel(BackendKind::Cpu, "x86_64", 132), 0);
    }
}
