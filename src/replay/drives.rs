//! Which synthetic drives a replay looks at, and which of their frames.

use std::fmt;
use std::str::FromStr;

/// Some drives by turns. As text: a seed (`7`), or the first and last of several (`1-30`), and optionally how many frames of
/// each drive lie from one that is looked at to the next (`1-30@40`; 1 unless said).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drives {
    first: u64,
    last: u64,
    step: u32,
}

/// Why a text names no drives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` names no synthetic drive: give a seed, as in `synthetic:7`, or the first and the last of several seeds and the \
     frames from one look to the next, as in `synthetic:1-30@40`; seeds are whole numbers up to {max}, the step is 1 to {most}",
    max = u64::MAX,
    most = Drives::MAX_STEP
)]
pub struct DrivesError {
    /// What stands in their place.
    pub text: String,
}

impl Drives {
    /// Most frames from one look to the next: more than a day of driving.
    pub const MAX_STEP: u32 = 1_000_000;

    /// All frames of one drive.
    pub fn one(seed: u64) -> Drives {
        Drives {
            first: seed,
            last: seed,
            step: 1,
        }
    }

    /// Seed and frame number of look `index`: the drives take turns, each look at a drive is a step further on.
    pub fn look(&self, index: usize) -> (u64, u32) {
        let index = index as u64;
        // As many drives as there are seeds is one more than fits only for all seeds: then the first look never ends.
        let (turn, round) = match (self.last - self.first).checked_add(1) {
            Some(drives) => (index % drives, index / drives),
            None => (index, 0),
        };
        let number = round.saturating_mul(u64::from(self.step));
        (self.first + turn, u32::try_from(number).unwrap_or(u32::MAX))
    }
}

impl FromStr for Drives {
    type Err = DrivesError;

    fn from_str(text: &str) -> Result<Drives, DrivesError> {
        let (seeds, step) = text.split_once('@').map_or((text, None), |(seeds, step)| (seeds, Some(step)));
        let (first, last) = seeds.split_once('-').unwrap_or((seeds, seeds));
        // `parse` alone would take a sign.
        fn number<T: FromStr>(text: &str) -> Option<T> {
            text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
        }
        let drives = || {
            let (first, last): (u64, u64) = (number(first)?, number(last)?);
            let step = step.map_or(Some(1), number)?;
            (first <= last && (1..=Drives::MAX_STEP).contains(&step)).then_some(Drives { first, last, step })
        };
        drives().ok_or_else(|| DrivesError { text: text.into() })
    }
}

impl fmt::Display for Drives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.last > self.first {
            write!(f, "-{}", self.last)?;
        }
        if self.step > 1 {
            write!(f, "@{}", self.step)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_take_turns_and_go_on_by_the_step() {
        let looks = |text: &str, n: usize| -> Vec<(u64, u32)> {
            let drives: Drives = text.parse().unwrap();
            (0..n).map(|i| drives.look(i)).collect()
        };
        assert_eq!(looks("7", 3), [(7, 0), (7, 1), (7, 2)]);
        assert_eq!(looks("7@10", 3), [(7, 0), (7, 10), (7, 20)]);
        assert_eq!(looks("3-5@40", 7), [(3, 0), (4, 0), (5, 0), (3, 40), (4, 40), (5, 40), (3, 80)]);
        let all = format!("0-{}", u64::MAX);
        assert_eq!(looks(&all, 2), [(0, 0), (1, 0)]);
        let far: Drives = "9@1000000".parse().unwrap();
        assert_eq!(far.look(usize::MAX), (9, u32::MAX));
    }

    #[test]
    fn what_is_read_is_written_back_and_nothing_else_is_read() {
        for text in ["7", "0", "1-30", "1-30@40", "7@2", "18446744073709551615"] {
            assert_eq!(text.parse::<Drives>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "x",
            "-1",
            "+1",
            "1.5",
            " 1",
            "0x10",
            "18446744073709551616",
            "5-3",
            "1-",
            "-3",
            "1@",
            "1@0",
            "1@-1",
            "1@1000001",
            "1-2-3",
        ] {
            let error = wrong.parse::<Drives>().unwrap_err();
            assert_eq!(error.text, wrong);
            assert!(error.to_string().contains("synthetic:7"), "{error}");
        }
    }
}
