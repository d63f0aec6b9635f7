//! Where the outputs of a resize or a padding look: source positions and weights along one axis (ONNX `Resize`, `Pad`).
//!
//! Coordinates and filters are computed in f64 from basic operations and rounded to f32 weights, so the tables are the same
//! on every machine.

use crate::primitive::{Coordinates, Nearest, PadMode, PrimitiveError, Resize, ResizeMode};

/// One axis of a resize: its extents, scale and rule.
#[derive(Clone, Copy)]
struct Axis {
    input: f64,
    output: f64,
    /// The output's extent before it was rounded down.
    exact: f64,
    scale: f64,
    coordinates: Coordinates,
    axis: usize,
}

impl Axis {
    fn new(resize: &Resize, axis: usize, input: u32, output: u32) -> Axis {
        let (from, to) = (f64::from(input), f64::from(output));
        let stored = resize.scales[axis].0;
        // A scale that is the extents' ratio rounded to f32 stands for the ratio itself.
        let scale = if (to / from) as f32 == stored {
            to / from
        } else {
            f64::from(stored)
        };
        let exact = if (to / from) as f32 == stored { to } else { scale * from };
        Axis {
            input: from,
            output: to,
            exact,
            scale,
            coordinates: resize.coordinates,
            axis,
        }
    }

    /// The source coordinate of output `at`; `None` where it lies outside a cropped region's input.
    fn source(&self, at: u32) -> Option<f64> {
        let at = f64::from(at);
        let half_pixel = (at + 0.5) / self.scale - 0.5;
        Some(match &self.coordinates {
            Coordinates::HalfPixel => half_pixel,
            // The middles of both lie on each other; one quotient, so that whole positions come out whole.
            Coordinates::HalfPixelSymmetric => (self.input - 1.0 + (2.0 * at + 1.0 - self.output) / self.scale) / 2.0,
            Coordinates::PytorchHalfPixel if self.output <= 1.0 => 0.0,
            Coordinates::PytorchHalfPixel => half_pixel,
            Coordinates::AlignCorners if self.exact == 1.0 => 0.0,
            Coordinates::AlignCorners => at * (self.input - 1.0) / (self.exact - 1.0),
            Coordinates::Asymmetric => at / self.scale,
            Coordinates::CropAndResize { start, end, .. } => {
                let (start, end) = (f64::from(start[self.axis].0), f64::from(end[self.axis].0));
                let within = if self.exact == 1.0 {
                    (end - start) * (self.input - 1.0) / 2.0
                } else {
                    at * (end - start) * (self.input - 1.0) / (self.exact - 1.0)
                };
                let x = within + start * (self.input - 1.0);
                if x < 0.0 || x > self.input - 1.0 {
                    return None;
                }
                x
            }
        })
    }
}

/// True if the resize leaves `axis` as it is.
pub fn is_identity(resize: &Resize, axis: usize, input: u32, output: u32) -> bool {
    let cropped = match &resize.coordinates {
        Coordinates::CropAndResize { start, end, .. } => start[axis].0 != 0.0 || end[axis].0 != 1.0,
        _ => false,
    };
    input == output && resize.scales[axis].0 == 1.0 && !cropped
}

/// For every output along `axis` the one input position that a nearest resize takes, `None` outside a cropped input.
///
/// `input` is at least 1.
pub fn nearest(resize: &Resize, rounding: Nearest, axis: usize, input: u32, output: u32) -> Vec<Option<u32>> {
    let rule = Axis::new(resize, axis, input, output);
    let round = |x: f64| match rounding {
        Nearest::RoundPreferFloor => (x - 0.5).ceil(),
        Nearest::RoundPreferCeil => (x + 0.5).floor(),
        Nearest::Floor => x.floor(),
        Nearest::Ceil => x.ceil(),
    };
    // A scale is stored in f32: where f32 does not tell a position from a whole or a half number, it stands for that number (3 / 0.3
    // is 10), as it does where the network was trained.
    let meant = |x: f64| {
        let half = (2.0 * x).round() / 2.0;
        if (x - half).abs() <= x.abs() * f64::from(f32::EPSILON) / 2.0 {
            half
        } else {
            x
        }
    };
    let place = |at: u32| rule.source(at).map(|x| round(meant(x)).clamp(0.0, f64::from(input - 1)) as u32);
    (0..output).map(place).collect()
}

/// Weighted taps along one axis.
pub struct Taps {
    /// Taps per output.
    pub count: usize,
    /// Input positions, `count` per output, inside the input.
    pub positions: Vec<u32>,
    /// Weights, `count` per output.
    pub weights: Vec<f32>,
    /// Per output, true if it lies outside a cropped input.
    pub outside: Vec<bool>,
}

/// The taps of a linear or cubic resize along `axis`. `input` is at least 1.
///
/// # Errors
/// `Attribute` if the scale is so far from the ratio of the extents that the widened filter has no use for its taps.
pub fn weighted(resize: &Resize, axis: usize, input: u32, output: u32) -> Result<Taps, PrimitiveError> {
    let rule = Axis::new(resize, axis, input, output);
    // The filter's half width in input elements, and the filter at a distance.
    let (antialias, half, cubic) = match resize.mode {
        ResizeMode::Linear { antialias } => (antialias, 1.0, None),
        ResizeMode::LinearInside => (true, 1.0, None),
        ResizeMode::Cubic {
            coefficient, antialias, ..
        } => (antialias, 2.0, Some(f64::from(coefficient.0))),
        ResizeMode::Nearest(_) => return Err(PrimitiveError::Attribute),
    };
    let exclude = matches!(
        resize.mode,
        ResizeMode::Cubic { exclude_outside: true, .. } | ResizeMode::LinearInside
    );
    let shrink = if antialias { rule.scale.min(1.0) } else { 1.0 };
    let reach = (half / shrink).ceil();
    let (from, to) = (u64::from(input), u64::from(output));
    // With a scale near the extents' ratio an output has about `2 * half * input / output` taps.
    if reach > 2.0 * f64::from(input) + 4.0 || 2 * reach as u64 * to > 8 * (from + to) + 64 {
        return Err(PrimitiveError::Attribute);
    }
    let reach = reach as i64;
    let mut taps = Taps {
        count: 2 * reach as usize,
        positions: Vec::new(),
        weights: Vec::new(),
        outside: Vec::new(),
    };
    let mut filter = vec![0.0f64; taps.count];
    for at in 0..output {
        let source = rule.source(at);
        taps.outside.push(source.is_none());
        let x = source.unwrap_or(0.0);
        // Taps run from `left + 1 - reach` to `left + reach`, where `left < x <= left + 1`.
        let left = x.ceil() - 1.0;
        let ratio = x - left;
        let first = (left as i64).saturating_add(1 - reach);
        for (i, f) in filter.iter_mut().enumerate() {
            let distance = (((i as i64 + 1 - reach) as f64 - ratio) * shrink).abs();
            *f = match cubic {
                None => (1.0 - distance).max(0.0),
                Some(a) => cubic_filter(distance, a),
            };
            if exclude && !(0..i64::from(input)).contains(&first.saturating_add(i as i64)) {
                *f = 0.0;
            }
        }
        let sum: f64 = filter.iter().sum();
        let norm = if (antialias || exclude) && sum != 0.0 { sum } else { 1.0 };
        for (i, f) in filter.iter().enumerate() {
            let position = first.saturating_add(i as i64).clamp(0, i64::from(input) - 1);
            taps.positions.push(position as u32);
            taps.weights.push((f / norm) as f32);
        }
        if !antialias && cubic.is_none() {
            // The two weights of a linear tap are `1 - f` and `f` in f32.
            let right = ratio as f32;
            let pair = taps.weights.len() - 2;
            taps.weights[pair] = 1.0 - right;
            taps.weights[pair + 1] = right;
        }
    }
    Ok(taps)
}

/// The cubic convolution filter at `distance`, with coefficient `a` (Keys 1981, equation 4 for a = -0.5).
fn cubic_filter(distance: f64, a: f64) -> f64 {
    let (d, d2) = (distance, distance * distance);
    if d <= 1.0 {
        (a + 2.0) * d2 * d - (a + 3.0) * d2 + 1.0
    } else if d < 2.0 {
        a * d2 * d - 5.0 * a * d2 + 8.0 * a * d - 4.0 * a
    } else {
        0.0
    }
}

/// The input position under position `at` of a padded axis of `extent` elements, counted from the input's first; `None`
/// outside the input where a constant stands.
pub fn padded(mode: PadMode, at: i64, extent: i64) -> Option<u32> {
    if (0..extent).contains(&at) {
        return Some(at as u32);
    }
    let inside = match mode {
        PadMode::Constant(_) => return None,
        _ if extent == 0 => return None,
        PadMode::Edge => at.clamp(0, extent - 1),
        PadMode::Wrap => at.rem_euclid(extent),
        PadMode::Reflect => {
            let period = (2 * (extent - 1)).max(1);
            let folded = at.rem_euclid(period);
            folded.min(period - folded).min(extent - 1)
        }
    };
    Some(inside as u32)
}
