//! Sets of processor cores, as `0-3,8` writes them.

use std::fmt;
use std::str::FromStr;

/// Cores that a set can have, as many as the system's own sets.
pub const MAX_CORES: usize = 1024;

/// A set of cores by their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cores([u64; MAX_CORES / 64]);

/// Why a text is no set of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give cores below {MAX_CORES} by number and range, as 0-3,8")]
pub struct NoCores;

impl Cores {
    /// No core.
    pub const NONE: Cores = Cores([0; MAX_CORES / 64]);

    /// The cores whose bits are set, of the first 64.
    pub fn of_bits(bits: u64) -> Cores {
        let mut cores = Cores::NONE;
        cores.0[0] = bits;
        cores
    }

    /// Adds a core; [`NoCores`] if its number is too large.
    pub fn insert(&mut self, core: usize) -> Result<(), NoCores> {
        *self.0.get_mut(core / 64).ok_or(NoCores)? |= 1 << (core % 64);
        Ok(())
    }

    /// True if the core is one of them.
    pub fn contains(&self, core: usize) -> bool {
        self.0.get(core / 64).is_some_and(|word| word >> (core % 64) & 1 != 0)
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Their numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..MAX_CORES).filter(|&core| self.contains(core))
    }
}

impl FromIterator<usize> for Cores {
    /// The cores of these numbers; those that are too large are left out.
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Cores {
        let mut cores = Cores::NONE;
        for core in numbers {
            // Said above.
            let _ = cores.insert(core);
        }
        cores
    }
}

impl FromStr for Cores {
    type Err = NoCores;

    fn from_str(text: &str) -> Result<Cores, NoCores> {
        let number = |text: &str| text.parse::<usize>().ok().filter(|&n| n < MAX_CORES).ok_or(NoCores);
        let mut cores = Cores::NONE;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(NoCores);
            }
            (first..=last).try_for_each(|core| cores.insert(core))?;
        }
        Ok(cores)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starts = self.iter().filter(|&core| core == 0 || !self.contains(core - 1));
        for (place, first) in starts.enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let last = (first..MAX_CORES).take_while(|&core| self.contains(core)).last().unwrap_or(first);
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cores({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_read_as_they_are_written() {
        for text in ["0", "0-3,8", "0-3,8,10-11", "63-64", "1023"] {
            assert_eq!(text.parse::<Cores>().unwrap().to_string(), text);
        }
        assert_eq!("3,0-2,1".parse::<Cores>().unwrap().to_string(), "0-3");
        assert_eq!(Cores::of_bits(0b1101).to_string(), "0,2-3");
        assert_eq!([5usize, 6, 4000].into_iter().collect::<Cores>().to_string(), "5-6");
        assert!(Cores::NONE.is_empty() && Cores::NONE.to_string().is_empty() && !Cores::NONE.contains(usize::MAX));
        for bad in ["", "a", "1-", "-1", "3-1", "1024", "0-4000000000", "1,,2", "99999999999999999999"] {
            assert_eq!(bad.parse::<Cores>(), Err(NoCores), "{bad}");
        }
    }
}
