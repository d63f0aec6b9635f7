//! The zoo: the networks of the papers' mixes and two of a vehicle's, built as graphs with seeded weights.
//!
//! Structure and parameter names are torchvision's, at inference: dropout and auxiliary heads are left out, batch normalisations
//! hold running statistics. So weights can be exchanged with a torchvision model by name.
//!
//! | file | idea |
//! |---|---|
//! | this one | the list of networks: name, usual batch, input |
//! | [`build`] | the graph under construction |
//! | [`layers`] | layers with parameters |
//! | [`weights`] | seeded parameters |
//! | [`alexnet`], [`vgg`], [`resnet`], [`mobilenet`], [`densenet`], [`sequence`], [`ssd`], [`deeplab`], [`vit`] | the networks |
//! | [`count`] | multiply-adds and parameters |
//! | [`member`] | what runs as one tenant: one of these, or an ONNX file of the user's |
//! | [`run`] | what to run, and an engine on it |
//! | [`report`] | the figures as rows, as JSON, and beside their floors as Markdown |
//! | [`gaps`] | operators beside their floors |
//! | `models.py` | the same networks as PyTorch modules |
//! | `compare.py` | exported weights in those modules, and their outputs beside ours |

pub mod alexnet;
pub mod build;
pub mod count;
pub mod deeplab;
pub mod densenet;
pub mod gaps;
pub mod layers;
pub mod member;
pub mod mobilenet;
pub mod report;
pub mod resnet;
pub mod rivals;
pub mod run;
#[cfg(test)]
mod searches;
pub mod sequence;
pub mod ssd;
#[cfg(test)]
mod tests;
pub mod vgg;
pub mod vit;
pub mod weights;

use super::noise::Noise;
use crate::tensor::{DType, Data, Shape, Tensor};
use build::{Model, Net, Signal};

/// The seed of all weights and inputs.
const SEED: u64 = 2026;

/// What a network takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Pictures `image` `[N, 3, height, width]` (f32) of mean 0 and mean square 1.
    Picture {
        /// Rows.
        height: u32,
        /// Columns.
        width: u32,
    },
    /// Numbers of words or items `tokens` `[N, length]` (i32), each below `vocabulary`.
    Tokens {
        /// Tokens of a sequence.
        length: u32,
        /// Different tokens.
        vocabulary: u32,
    },
}

/// A network of the zoo.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Its short name, as in the papers' mixes.
    pub name: &'static str,
    /// Its name.
    pub title: &'static str,
    /// The batch that it usually runs with.
    pub batch: u32,
    /// Its input.
    pub input: Input,
    define: fn(&mut Net, Signal),
}

/// A network for pictures of ImageNet's usual size, a batch of 8.
const fn classifier(name: &'static str, title: &'static str, define: fn(&mut Net, Signal)) -> Network {
    Network {
        name,
        title,
        batch: 8,
        input: Input::Picture { height: 224, width: 224 },
        define,
    }
}

/// All networks.
pub const ALL: [Network; 13] = [
    classifier("alex", "AlexNet", alexnet::alexnet),
    classifier("v16", "VGG-16", vgg::vgg16),
    classifier("r18", "ResNet-18", resnet::resnet18),
    classifier("r34", "ResNet-34", resnet::resnet34),
    classifier("r50", "ResNet-50", resnet::resnet50),
    classifier("r101", "ResNet-101", resnet::resnet101),
    classifier("m3", "MobileNetV3-Large", mobilenet::mobilenet_v3_large),
    classifier("d121", "DenseNet-121", densenet::densenet121),
    Network {
        name: "lstm",
        title: "LSTM text classifier",
        batch: 128,
        input: Input::Tokens {
            length: sequence::WORDS_OF_TEXT,
            vocabulary: sequence::WORDS,
        },
        define: sequence::lstm,
    },
    Network {
        name: "bst",
        title: "Behaviour Sequence Transformer",
        batch: 64,
        input: Input::Tokens {
            length: sequence::POSITIONS,
            vocabulary: sequence::ITEMS,
        },
        define: sequence::bst,
    },
    Network {
        name: "ssd",
        title: "SSD300-VGG16",
        batch: 1,
        input: Input::Picture { height: 300, width: 300 },
        define: ssd::ssd300,
    },
    Network {
        name: "dlv3",
        title: "DeepLabV3-MobileNetV3-Large",
        batch: 1,
        input: Input::Picture { height: 512, width: 1024 },
        define: deeplab::deeplab_v3,
    },
    classifier("vit", "ViT-B/16", vit::vit_b16),
];

/// The network of a short name.
pub fn find(name: &str) -> Option<&'static Network> {
    ALL.iter().find(|n| n.name == name)
}

impl Network {
    /// The network for pictures of another size. Classifiers with fully connected layers over pixels (AlexNet, VGG) and SSD's
    /// default boxes are made for their own size.
    pub fn for_pictures(self, height: u32, width: u32) -> Network {
        Network {
            input: Input::Picture { height, width },
            ..self
        }
    }

    /// Shape of the input of a batch.
    pub fn dims(&self, batch: u32) -> Vec<u32> {
        match self.input {
            Input::Picture { height, width } => vec![batch, 3, height, width],
            Input::Tokens { length, .. } => vec![batch, length],
        }
    }

    /// The graph for a batch, at least 1. The weights do not depend on the batch.
    pub fn model(&self, batch: u32) -> Model {
        let mut net = Net::new(self.name, SEED);
        let dims = self.dims(batch);
        let input = match self.input {
            Input::Picture { .. } => net.input("image", DType::F32, &dims),
            Input::Tokens { .. } => net.input("tokens", DType::I32, &dims),
        };
        (self.define)(&mut net, input);
        net.finish()
    }

    /// Seeded data for the input of a batch.
    pub fn data(&self, batch: u32) -> Tensor {
        let shape = Shape::new(&self.dims(batch)).unwrap_or(Shape::SCALAR);
        let mut noise = Noise::named(SEED, self.name);
        let elements = 0..shape.elements();
        // Uniform in -h..h has the mean square h^2 / 3.
        let half = 3f32.sqrt();
        let data = match self.input {
            Input::Picture { .. } => Data::F32(elements.map(|_| noise.between(-half, half)).collect()),
            Input::Tokens { vocabulary, .. } => Data::I32(elements.map(|_| noise.below(vocabulary) as i32).collect()),
        };
        // As many elements as the shape has: the fallback is never taken.
        Tensor::new(shape, data).unwrap_or_else(|| Tensor::zeros(DType::F32, shape))
    }
}
