//! Model cards: `model.toml`, what a network is, what it wants to see, and how its outputs are read.
//!
//! ```toml
//! name = "yolox_nano_416"
//! onnx = "${PLATOON_AV_DATA:-../weights}/yolox_nano_416.onnx"   # relative to the card
//! digest = "695e…"                # SHA-256 of the file, hexadecimal; checked before the network is read
//! source = "where the weights come from, with a commit"
//! licence = "Apache-2.0"
//! dtype = "f32"                    # may be left out: stay in f32 where a plan asks for f16, for a network whose results f16 moves
//!
//! [input]                          # how a camera picture becomes the network's input
//! tensor = "images"                # may be left out where there is only one
//! fit = "letterbox-top-left"       # or "letterbox-centred", "stretch"
//! fill = 114                       # around a letterboxed picture, 0..=255
//! order = "bgr"                    # or "rgb"
//! mean = [0, 0, 0]                 # input = (pixel - mean) / std, per tensor channel
//! std = [1, 1, 1]
//! # Instead of `fit` and `fill`, for a network over crops of another tenant's detections (its source's, see `tasks`):
//! # crops = { classes = ["traffic light", "traffic sign"], margin = 0.1 }
//!
//! [detection]                      # or [segmentation], [classification]; none: the tensors as they are
//! decoder = "yolox"
//! score = 0.3                      # lowest score kept
//! iou = 0.45                       # overlap above which the worse box of a class goes
//! max = 100                        # most boxes a picture
//! labels = "coco80.txt"            # one a line; or an inline array
//!
//! [accuracy]                       # may be left out: what a scored replay gave, in f32 on the CPU
//! metric = "map50"                 # or "miou", "top1": the key in score.json
//! value = 0.87
//! task_set = "urban"               # of the task file it was measured with
//! input = "synthetic:1-30@40"      # of `platoon replay`
//! frames = 120
//! ```

mod tables;

use super::document::{Document, TomlError};
use crate::plan::format::Digest;
use crate::plan::regular;
use crate::primitive::{ColorOrder, Fit};
use crate::task::ResultKind;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// Most boxes a detector may keep of one picture.
pub const MAX_DETECTIONS: u32 = 1024;

/// A model card, checked, with its paths resolved and its labels read.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// The network's name.
    pub name: String,
    /// The card's own file.
    pub path: PathBuf,
    /// The ONNX file; it exists.
    pub onnx: PathBuf,
    /// SHA-256 of the ONNX file, if the card gives one; see [`Card::verify`].
    pub digest: Option<Digest>,
    /// Where the weights come from.
    pub source: String,
    /// Their licence.
    pub licence: String,
    /// The network stays in f32 where a plan asks for f16: its results are too sensitive to rounding, its own weights' above
    /// all. On a GPU that costs the tensor cores.
    pub single: bool,
    /// How a picture becomes the network's input.
    pub input: CardInput,
    /// How the outputs are read.
    pub decode: Decode,
    /// How right it was found to be.
    pub accuracy: Option<Measured>,
}

/// The accuracy of a network, measured by a replay that anyone can repeat. Says nothing of other inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What was measured, as `score.json` names it.
    pub metric: String,
    /// The figure, 0..=1.
    pub value: f64,
    /// The task set it ran in.
    pub task_set: String,
    /// The replay's input.
    pub input: String,
    /// The replay's number of frames, at least 1.
    pub frames: usize,
}

/// How a picture becomes a network's input.
#[derive(Clone, Debug, PartialEq)]
pub struct CardInput {
    /// The input tensor; `None` for the only one.
    pub tensor: Option<String>,
    /// How the picture is fitted.
    pub fit: Fit,
    /// Pixel value around a letterboxed picture.
    pub fill: u8,
    /// Colour order of the tensor.
    pub order: ColorOrder,
    /// Subtracted, per tensor channel, in pixel values 0..=255.
    pub mean: [f32; 3],
    /// Divided by, per tensor channel; finite and not 0.
    pub std: [f32; 3],
    /// The pictures are crops of another tenant's detections; `None` for whole pictures of cameras.
    pub crops: Option<CropCard>,
}

/// Which crops a network wants: the best detections of some classes, stretched to its input's size.
#[derive(Clone, Debug, PartialEq)]
pub struct CropCard {
    /// The classes, by the labels of the network that detects; at least one.
    pub classes: Vec<String>,
    /// Share of its width and height by which a box is enlarged on each side, 0 to
    /// [`MAX_CROP_MARGIN`](crate::primitive::MAX_CROP_MARGIN); 0 unless given.
    pub margin: f32,
    /// Crops in a batch, 1 to [`MAX_CROPS`](crate::limits::MAX_CROPS). `None` leaves it to the network: its own batch, or 1 where it
    /// leaves its batch open. A network of another batch is refused.
    pub count: Option<u32>,
}

/// How a network's outputs are read.
#[derive(Clone, Debug, PartialEq)]
pub enum Decode {
    /// An anchor-free YOLOX head, then non-maximum suppression per class.
    Yolox {
        /// The head's tensor; `None` for the only output.
        output: Option<String>,
        /// Lowest score kept, 0..=1.
        score: f32,
        /// Boxes of a class that overlap a better one by more than this are dropped, 0..=1.
        iou: f32,
        /// Most boxes a picture, 1..=[`MAX_DETECTIONS`].
        max: u32,
        /// Class names.
        labels: Vec<String>,
    },
    /// One or more label maps.
    Segmentation {
        /// The maps, at least one.
        maps: Vec<MapCard>,
    },
    /// The best classes of a score vector.
    Classification {
        /// The scores' tensor; `None` for the only output.
        output: Option<String>,
        /// How many classes, at least 1.
        k: u32,
        /// The tensor holds logits: softmax comes first.
        softmax: bool,
        /// Class names.
        labels: Vec<String>,
    },
    /// The tensors as they are.
    Tensors,
}

impl Decode {
    /// The kind of result this gives.
    pub fn kind(&self) -> ResultKind {
        match self {
            Decode::Yolox { .. } => ResultKind::Detection,
            Decode::Segmentation { .. } => ResultKind::Segmentation,
            Decode::Classification { .. } => ResultKind::Classification,
            Decode::Tensors => ResultKind::Tensors,
        }
    }
}

/// One label map: the index of the largest score along an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct MapCard {
    /// The map's name in results; the tensor's unless the card says otherwise.
    pub name: String,
    /// The scores' tensor.
    pub output: String,
    /// The axis of the classes, in the tensor's own (ONNX) order.
    pub axis: usize,
    /// Width and height to which the scores are resampled (bilinear, half-pixel centres) before the largest is sought.
    pub resize: Option<(u32, u32)>,
    /// Class names.
    pub labels: Vec<String>,
}

impl Card {
    /// Reads a card: `model.toml`, or the folder that holds it.
    pub fn load(path: &Path) -> Result<Card, TomlError> {
        let path = if path.is_dir() { path.join("model.toml") } else { path.to_owned() };
        tables::parse(&Document::read(&path)?)
    }

    /// The tensors of the network that its decoder reads, where the card names them: nothing else has to be imported.
    pub fn read_outputs(&self) -> Vec<String> {
        let named: Vec<&String> = match &self.decode {
            Decode::Yolox { output, .. } | Decode::Classification { output, .. } => output.iter().collect(),
            Decode::Segmentation { maps } => maps.iter().map(|m| &m.output).collect(),
            Decode::Tensors => Vec::new(),
        };
        let mut names: Vec<String> = Vec::new();
        for name in named {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Checks the ONNX file against the card's digest: an altered or truncated file is an error, and so is an unreadable one.
    /// A card without a digest vouches for nothing and passes. The planner calls this before it imports the network.
    pub fn verify(&self) -> Result<(), CardError> {
        let Some(expected) = self.digest else { return Ok(()) };
        let read = |source| CardError::Read {
            path: self.onnx.clone(),
            source,
        };
        let mut hasher = Sha256::new();
        let (mut file, _) = regular::open(&self.onnx).map_err(read)?;
        let mut part = vec![0; 1 << 16];
        loop {
            match std::io::Read::read(&mut file, &mut part).map_err(read)? {
                0 => break,
                n => hasher.update(&part[..n]),
            }
        }
        let found = Digest(hasher.finalize().into());
        if found == expected {
            return Ok(());
        }
        Err(CardError::Digest {
            onnx: self.onnx.clone(),
            card: self.path.clone(),
            expected,
            found,
        })
    }
}

/// Why a card's network cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The ONNX file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The ONNX file is not the one the card vouches for.
    #[error(
        "{}: SHA-256 is {found}, but {} says {expected}: fetch the file again, or correct the card's `digest`",
        onnx.display(),
        card.display()
    )]
    Digest {
        /// The ONNX file.
        onnx: PathBuf,
        /// The card.
        card: PathBuf,
        /// What the card says.
        expected: Digest,
        /// What the file has.
        found: Digest,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "name = \"n\"\nonnx = \"n.onnx\"\nsource = \"s\"\nlicence = \"MIT\"\n";
    /// SHA-256 of the three bytes `abc` (FIPS 180-2, appendix B.1).
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn load(text: &str) -> Result<Card, TomlError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("n.onnx"), "abc").unwrap();
        std::fs::write(folder.path().join("labels.txt"), "a\nb, c\n").unwrap();
        std::fs::write(folder.path().join("model.toml"), text).unwrap();
        let card = Card::load(folder.path())?;
        // While the folder is there: a card that vouches for its file, or for none, verifies unless its digest is another's.
        assert_eq!(card.verify().is_ok(), card.digest.is_none() || text.contains(ABC));
        Ok(card)
    }

    /// Line and reason of the error that `text` gives.
    fn refused(text: &str) -> (usize, String) {
        match load(text) {
            Err(TomlError::Invalid { line, reason, .. }) => (line, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_kind_of_card_is_read() {
        assert_eq!(load(CARD).unwrap().decode, Decode::Tensors);
        let detection = format!(
            "{CARD}digest = \"{ABC}\"\n[input]\nfit = \"letterbox-centred\"\norder = \"bgr\"\nfill = 7\nmean = [1, 2, 3]\n\
             [detection]\ndecoder = \"yolox\"\nscore = 0.3\niou = 0.5\nmax = 9\nlabels = \"labels.txt\"\n"
        );
        let card = load(&detection).unwrap();
        assert_eq!(
            (card.input.fit, card.input.order, card.input.fill),
            (Fit::LetterboxCentred, ColorOrder::Bgr, 7)
        );
        assert_eq!((card.input.mean, card.input.std), ([1.0, 2.0, 3.0], [1.0; 3]));
        let small = load(&detection.replace("mean", "std = [1e-45, 1, 1]\nmean"))
            .unwrap_err()
            .to_string();
        assert!(small.contains("`std` is too small"), "{small}");
        let Decode::Yolox { max: 9, labels, .. } = card.decode else {
            panic!("{:?}", card.decode)
        };
        assert_eq!(labels, ["a", "b, c"]);
        let maps = format!("{CARD}[[segmentation.maps]]\noutput = \"da\"\naxis = 1\nresize = [640, 360]\nlabels = [\"x\"]\n");
        let Decode::Segmentation { maps } = load(&maps).unwrap().decode else {
            panic!("not a segmentation")
        };
        assert_eq!((maps[0].name.as_str(), maps[0].axis, maps[0].resize), ("da", 1, Some((640, 360))));
        let top = load(&format!("{CARD}[classification]\nk = 3\nsoftmax = true\n")).unwrap();
        assert!(matches!(top.decode, Decode::Classification { k: 3, softmax: true, .. }));
    }

    #[test]
    fn a_network_over_crops_says_which_and_classifies_them() {
        let of = |crops: &str, more: &str| format!("{CARD}[input]\n{more}crops = {{ {crops} }}\n[classification]\nk = 1\n");
        let card = load(&of("classes = [\"sign\", \"light\"], margin = 0.25, count = 8", "")).unwrap();
        let expected = CropCard {
            classes: vec!["sign".into(), "light".into()],
            margin: 0.25,
            count: Some(8),
        };
        assert_eq!(card.input.crops, Some(expected));
        let plain = load(&of("classes = [\"sign\"]", "")).unwrap().input.crops.unwrap();
        assert_eq!((plain.margin, plain.count), (0.0, None));
        for wrong in [
            "classes = []",
            "classes = [\"a\"], margin = -0.1",
            "classes = [\"a\"], margin = nan",
            "classes = [\"a\"], count = 0",
            "classes = [\"a\"], count = 1025",
            "classes = [\"a\"], marge = 1",
            "margin = 0.1",
        ] {
            assert_eq!(refused(&of(wrong, "")).0, 6, "{wrong}");
        }
        let (line, reason) = refused(&of("classes = [\"a\"]", "fill = 3\n"));
        assert!(line == 7 && reason.contains("leave `fit` and `fill` out"), "{reason}");
        let (line, reason) = refused(&of("classes = [\"a\"]", "").replace("[classification]\nk = 1\n", ""));
        assert!(line == 6 && reason.contains("`[classification]`"), "{reason}");
    }

    #[test]
    fn a_typo_is_an_error_with_line_key_and_the_keys_that_exist() {
        let (line, reason) = refused(&format!("{CARD}[input]\nfil = 3\n"));
        assert_eq!(line, 6);
        assert!(
            reason.contains("`fil`") && reason.contains("`fill`") && reason.contains("`order`"),
            "{reason}"
        );
        let (line, reason) = refused(&format!("{CARD}[input]\nfit = \"squash\"\n"));
        assert!(
            line == 6 && reason.contains("`letterbox-top-left`") && reason.contains("fit = "),
            "{reason}"
        );
        let (line, reason) = refused(&format!("{CARD}[input]\nfill = 300\n"));
        assert!(line == 6 && reason.contains("fill = 300"), "{reason}");
        assert!(refused("name = \"n\"\n").1.contains("missing field `onnx`"));
        assert_eq!(refused("name = \"n\"\nonnx =\n").0, 2);
    }

    #[test]
    fn values_out_of_range_are_errors_where_they_stand() {
        let detection = "[detection]\ndecoder = \"yolox\"\nscore = 0.3\niou = 1.5\nmax = 9\n";
        assert_eq!(refused(&format!("{CARD}{detection}")).0, 8);
        assert_eq!(refused(&format!("{CARD}[input]\nstd = [1, 0, 1]\n")).0, 6);
        assert_eq!(refused(&format!("{CARD}[classification]\nk = 0\n")).0, 6);
        assert_eq!(refused(&format!("{CARD}digest = \"12\"\n")).0, 5);
        assert_eq!(refused(&CARD.replace("n.onnx", "m.onnx")).0, 2);
        let (line, reason) = refused(&format!("{CARD}[classification]\nk = 1\n[segmentation]\nmaps = []\n"));
        assert!(line == 7 && reason.contains("only one of"), "{line} {reason}");
    }

    #[test]
    fn names_of_models_and_maps_fit_in_a_files_name() {
        let card = |name: usize| CARD.replace("\"n\"", &format!("\"{}\"", "q".repeat(name)));
        assert!(load(&card(100)).is_ok() && refused(&card(101)).1.contains("1 to 100 bytes"));
        let map = |output: usize, more: &str| {
            let output = "q".repeat(output);
            format!("{CARD}[segmentation]\nmaps = [{{ output = \"{output}\", axis = 1, labels = [\"a\"]{more} }}]\n")
        };
        assert!(load(&map(100, "")).is_ok() && load(&map(500, ", name = \"short\"")).is_ok());
        assert!(refused(&map(101, "")).1.contains("give the map a `name`"));
    }

    #[test]
    fn an_altered_network_is_refused_with_both_digests() {
        let other = ABC.replace("ba78", "0000");
        let card = load(&format!("{CARD}digest = \"sha256:{other}\"\n")).unwrap();
        assert_eq!(card.digest.unwrap().to_string(), other);
    }

    #[test]
    fn a_card_may_keep_its_network_in_f32_and_nothing_else() {
        assert!(!load(CARD).unwrap().single);
        assert!(load(&format!("{CARD}dtype = \"f32\"\n")).unwrap().single);
        let (line, reason) = refused(&format!("{CARD}dtype = \"f16\"\n"));
        assert!(line == 5 && reason.contains("`f32`"), "{reason}");
    }

    #[test]
    fn a_card_may_say_how_right_the_network_is() {
        let said = "[accuracy]\nmetric = \"map50\"\nvalue = 0.5\ntask_set = \"urban\"\ninput = \"synthetic:1-3\"\nframes = 9\n";
        let card = load(&format!("{CARD}{said}")).unwrap();
        let accuracy = card.accuracy.unwrap();
        assert_eq!((accuracy.metric.as_str(), accuracy.value, accuracy.frames), ("map50", 0.5, 9));
        assert!(load(CARD).unwrap().accuracy.is_none());
        for (right, wrong, line) in [("0.5", "1.5", 7), ("0.5", "nan", 7), ("map50", "top9", 6), ("= 9", "= 0", 10)] {
            assert_eq!(refused(&format!("{CARD}{}", said.replace(right, wrong))).0, line);
        }
    }
}
