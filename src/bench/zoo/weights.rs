//! Seeded parameters.
//!
//! Every parameter is uniform noise from a sequence of its own: the network's seed and the parameter's name say all of it, so
//! that a change of one layer leaves the others' numbers alone. How wide a weight spreads follows He et al. 2015 ("Delving Deep
//! into Rectifiers"): a layer's results keep a mean square near one, which [`super::build::Signal`] carries an estimate of.

use crate::bench::noise::Noise;
use crate::tensor::{Data, Shape, Tensor};

/// The range that the elements of a parameter are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Lowest.
    pub low: f32,
    /// Highest.
    pub high: f32,
}

impl Draw {
    /// `centre` plus or minus `half`.
    pub fn around(centre: f32, half: f32) -> Draw {
        Draw {
            low: centre - half,
            high: centre + half,
        }
    }

    /// Weights whose sums over `fan_in` inputs of mean square `power` have mean square one. A uniform number in `-h..h` has the
    /// mean square `h^2 / 3`.
    pub fn weights(fan_in: u64, power: f32) -> Draw {
        Draw::around(0.0, (3.0 / (fan_in.max(1) as f32 * power.max(1e-6))).sqrt())
    }

    /// The elements of the parameter `name` under `seed`.
    pub fn tensor(self, seed: u64, name: &str, shape: Shape) -> Tensor {
        let mut noise = Noise::named(seed, name);
        let elements = (0..shape.elements()).map(|_| noise.between(self.low, self.high)).collect();
        // As many elements as the shape has: the fallback is never taken.
        Tensor::new(shape, Data::F32(elements)).unwrap_or_else(|| Tensor::zeros(crate::tensor::DType::F32, shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_keep_the_mean_square_of_a_sum() {
        let draw = Draw::weights(400, 0.5);
        let weights = draw.tensor(1, "w", Shape::new(&[100, 400]).unwrap());
        let squares = weights.as_f32().unwrap().iter().map(|w| f64::from(w * w)).sum::<f64>();
        // A sum over 400 inputs of mean square 0.5, averaged over 100 sums.
        let power = squares * 0.5 / 100.0;
        assert!((power - 1.0).abs() < 0.05, "{power}");
    }

    #[test]
    fn a_parameter_depends_on_its_name_and_seed_alone() {
        let shape = Shape::new(&[8]).unwrap();
        let draw = Draw::around(0.0, 1.0);
        assert_eq!(draw.tensor(1, "a", shape).bytes(), draw.tensor(1, "a", shape).bytes());
        assert_ne!(draw.tensor(1, "a", shape).bytes(), draw.tensor(1, "b", shape).bytes());
        assert_ne!(draw.tensor(1, "a", shape).bytes(), draw.tensor(2, "a", shape).bytes());
    }
}
