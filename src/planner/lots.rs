//! Lots: seeded random numbers that are the same everywhere.

/// SplitMix64 (Steele, Lea and Flood 2014): small, seeded, the same everywhere.
#[derive(Clone, Debug)]
pub struct Lots(u64);

impl Lots {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Lots {
        Lots(seed)
    }

    /// The next number of 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n` (at least 1).
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}
