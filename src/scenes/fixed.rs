//! Arithmetic of the scenes: fixed-point angles, curves and dice. No floating point, so that every machine gets the same bits.

/// Steps of a full turn.
pub const TURN: i32 = 4096;
/// One, as sines and cosines count it.
pub const ONE: i32 = 1 << 14;

/// Sines of the first quarter turn, from turning a unit vector step by step in 30 fractional bits.
const QUARTER: [i16; 1025] = {
    // Cosine and sine of 1/4096 of a turn.
    const STEP_COS: i64 = 1_073_740_561;
    const STEP_SIN: i64 = 1_647_099;
    const HALF: i64 = 1 << 29;
    let mut table = [0i16; 1025];
    let (mut cos, mut sin) = (1i64 << 30, 0i64);
    let mut step = 0;
    while step <= 1024 {
        table[step] = ((sin + (1 << 15)) >> 16) as i16;
        (cos, sin) = (
            (cos * STEP_COS - sin * STEP_SIN + HALF) >> 30,
            (sin * STEP_COS + cos * STEP_SIN + HALF) >> 30,
        );
        step += 1;
    }
    table
};

/// Sine of an angle in 1/4096 turns, in units of 1/[`ONE`].
pub fn sin(angle: i32) -> i32 {
    let angle = angle.rem_euclid(TURN);
    let (quarter, rest) = (angle >> 10, (angle & 1023) as usize);
    i32::from(match quarter {
        0 => QUARTER[rest],
        1 => QUARTER[1024 - rest],
        2 => -QUARTER[rest],
        _ => -QUARTER[1024 - rest],
    })
}

/// Cosine of an angle in 1/4096 turns, in units of 1/[`ONE`].
pub fn cos(angle: i32) -> i32 {
    sin(angle.rem_euclid(TURN) + TURN / 4)
}

/// From `a` at `at` = 0 to `b` at `at` = `of`, straight, not beyond.
pub fn lerp(a: i32, b: i32, at: i32, of: i32) -> i32 {
    let at = at.clamp(0, of);
    a + ((i64::from(b - a) * i64::from(at)) / i64::from(of)) as i32
}

/// From 0 at `at` = 0 to 256 at `at` = `of`, with level ends.
pub fn smooth(at: i32, of: i32) -> i32 {
    let t = lerp(0, 256, at, of);
    (t * t * (768 - 2 * t)) >> 16
}

/// Mixes all bits of a number (the finaliser of the SplitMix64 generator).
pub const fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Dice fixed by what they are thrown for: the same purpose gives the same throws.
#[derive(Clone, Copy, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice of a drive for a purpose and its number.
    pub fn new(seed: u64, purpose: u64, number: i64) -> Dice {
        Dice(mix(mix(seed ^ mix(purpose)) ^ number as u64))
    }

    /// All bits at random.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// From 0 to below `end`, which is positive.
    pub fn below(&mut self, end: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u32
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below((high - low + 1) as u32) as i32
    }

    /// True so many times in a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// One of a few.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines_stay_on_the_unit_circle() {
        assert_eq!((sin(0), sin(1024), sin(2048), sin(3072)), (0, ONE, 0, -ONE));
        for angle in -5000..5000 {
            let square = sin(angle) * sin(angle) + cos(angle) * cos(angle);
            assert!((square - ONE * ONE).abs() <= 2 * ONE, "angle {angle}: {square}");
        }
    }

    #[test]
    fn dice_reach_every_side_about_equally_often() {
        let mut dice = Dice::new(1, 2, 3);
        let mut sides = [0; 6];
        for _ in 0..6000 {
            sides[dice.below(6) as usize] += 1;
        }
        assert!(sides.iter().all(|&count| (850..1150).contains(&count)), "{sides:?}");
    }
}
