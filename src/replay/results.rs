//! What a frame gave, as values that outlive the loop's slots, and their JSON: one object a frame in `results.jsonl`.
//!
//! The JSON holds nothing that differs between two runs of the same input, plan and backend: no times, and every number
//! rounded to a fixed count of decimals.

use crate::task::Status;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Results of one frame.
#[derive(Clone, Debug)]
pub struct FrameRecord {
    /// The frame's number, from 0.
    pub frame: u64,
    /// The picture file of each camera in the frame, in table order: camera name and file name.
    pub sources: Vec<(String, Option<String>)>,
    /// The task set that ran.
    pub task_set: String,
    /// Digest of the plan, in hexadecimal.
    pub plan: String,
    /// Results in the plan's order of tenants.
    pub tenants: Vec<TenantRecord>,
}

/// Results of one tenant.
#[derive(Clone, Debug)]
pub struct TenantRecord {
    /// The tenant's name.
    pub name: String,
    /// How current the result is.
    pub status: Status,
    /// The frame it was computed from; `None` where there has been no result yet.
    pub of_frame: Option<u64>,
    /// The result itself.
    pub output: Output,
}

/// A typed result. `camera` is the index of the picture's camera in the table.
#[derive(Clone, Debug)]
pub enum Output {
    /// Boxes.
    Detections(Vec<DetectionRecord>),
    /// Label maps.
    Maps(Vec<MapRecord>),
    /// Best classes of each picture of the batch.
    Items(Vec<ItemRecord>),
    /// Plain tensors.
    Tensors(Vec<TensorRecord>),
}

/// A detected object.
#[derive(Clone, Debug)]
pub struct DetectionRecord {
    /// Index of the picture's camera.
    pub camera: usize,
    /// Class number.
    pub class: u32,
    /// Class name; empty where the model's card has none.
    pub label: String,
    /// Score, 0..=1.
    pub score: f32,
    /// x0, y0, x1, y1 in pixels of the source picture.
    pub bounds: [f32; 4],
}

/// A label map at the size of its source picture.
#[derive(Clone, Debug)]
pub struct MapRecord {
    /// The map's name in the model's card; with the camera's name behind a slash where the tenant has several pictures.
    pub name: String,
    /// Index of the picture's camera.
    pub camera: usize,
    /// Names of the labels.
    pub labels: Arc<[String]>,
    /// Share of each label among the pixels.
    pub fractions: Vec<f64>,
    /// Where the map was written, relative to the results.
    pub file: Option<String>,
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// One label a pixel, row by row.
    pub pixels: Arc<[u8]>,
}

/// The best classes of one picture, or of one crop of it.
#[derive(Clone, Debug)]
pub struct ItemRecord {
    /// Index of the picture's camera.
    pub camera: usize,
    /// The detection that the crop shows; `None` for a whole picture.
    pub crop: Option<CropRecord>,
    /// Best first.
    pub top: Vec<ClassRecord>,
}

/// The detection that a crop shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CropRecord {
    /// Its place among the source's detections in the frame that the result is of.
    pub detection: usize,
    /// Its class number there.
    pub class: u32,
    /// x0, y0, x1, y1 in pixels of the source picture.
    pub bounds: [f32; 4],
}

/// A class with its score.
#[derive(Clone, Debug)]
pub struct ClassRecord {
    /// Class number.
    pub class: u32,
    /// Class name; empty where the model's card has none.
    pub label: String,
    /// Score as the network gives it.
    pub score: f32,
}

/// A plain tensor, by its digest.
#[derive(Clone, Debug)]
pub struct TensorRecord {
    /// The ONNX name.
    pub name: String,
    /// Extents.
    pub shape: Vec<u32>,
    /// Element type, as NumPy calls it.
    pub dtype: &'static str,
    /// SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
}

impl FrameRecord {
    /// The frame's line of `results.jsonl`, without the line break.
    pub fn to_json(&self) -> Value {
        let tenants: Map<String, Value> = self.tenants.iter().map(|t| (t.name.clone(), t.to_json())).collect();
        json!({
            "frame": self.frame,
            "source": self.source(),
            "task_set": self.task_set,
            "plan": self.plan,
            "tenants": tenants,
        })
    }

    /// The file name for one camera; an object from camera to file name for several.
    fn source(&self) -> Value {
        match self.sources.as_slice() {
            [(_, file)] => json!(file),
            several => several.iter().map(|(camera, file)| (camera.clone(), json!(file))).collect(),
        }
    }
}

impl TenantRecord {
    fn to_json(&self) -> Value {
        let (kind, key, output) = match &self.output {
            Output::Detections(all) => ("detection", "detections", all.iter().map(DetectionRecord::to_json).collect()),
            Output::Maps(all) => (
                "segmentation",
                "maps",
                Value::Object(all.iter().map(|m| (m.name.clone(), m.to_json())).collect()),
            ),
            Output::Items(all) => ("classification", "items", all.iter().map(ItemRecord::to_json).collect()),
            Output::Tensors(all) => (
                "tensors",
                "tensors",
                Value::Object(all.iter().map(|t| (t.name.clone(), t.to_json())).collect()),
            ),
        };
        json!({ "kind": kind, "status": self.status.name(), "of_frame": self.of_frame, key: output })
    }
}

impl DetectionRecord {
    fn to_json(&self) -> Value {
        json!({
            "class": self.class,
            "label": self.label,
            "score": decimals(self.score.into(), 4),
            "box": pixels(self.bounds),
        })
    }
}

impl MapRecord {
    fn to_json(&self) -> Value {
        let fractions: Vec<Value> = self.fractions.iter().map(|&f| decimals(f, 4)).collect();
        let mut map = json!({ "labels": *self.labels, "fractions": fractions });
        if let Some(file) = &self.file {
            map["file"] = json!(file);
        }
        map
    }
}

impl ItemRecord {
    fn to_json(&self) -> Value {
        let top: Vec<Value> = self.top.iter().map(ClassRecord::to_json).collect();
        match &self.crop {
            None => json!({ "top": top }),
            Some(crop) => json!({ "detection": crop.detection, "box": pixels(crop.bounds), "top": top }),
        }
    }
}

impl ClassRecord {
    fn to_json(&self) -> Value {
        json!({ "class": self.class, "label": self.label, "score": decimals(self.score.into(), 4) })
    }
}

impl TensorRecord {
    fn to_json(&self) -> Value {
        json!({ "shape": self.shape, "dtype": self.dtype, "sha256": self.digest })
    }
}

/// The edges of a box, in pixels.
fn pixels(bounds: [f32; 4]) -> [Value; 4] {
    bounds.map(|v| decimals(v.into(), 2))
}

/// `value` as a JSON number of at most `places` decimals, halves away from zero, never a negative zero;
/// null where it is not a finite number.
pub fn decimals(value: f64, places: i32) -> Value {
    let unit = 10f64.powi(places);
    let rounded = (value * unit).round() / unit + 0.0;
    serde_json::Number::from_f64(rounded).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tenants: Vec<TenantRecord>) -> FrameRecord {
        FrameRecord {
            frame: 3,
            sources: vec![("front".into(), Some("0003.jpg".into()))],
            task_set: "urban".into(),
            plan: "ab".into(),
            tenants,
        }
    }

    fn tenant(name: &str, status: Status, of_frame: Option<u64>, output: Output) -> TenantRecord {
        TenantRecord {
            name: name.into(),
            status,
            of_frame,
            output,
        }
    }

    #[test]
    fn a_frame_is_written_exactly_as_documented() {
        let car = DetectionRecord {
            camera: 0,
            class: 2,
            label: "car".into(),
            score: 0.884_04,
            bounds: [1050.051, 404.304, 1274.84, -0.001],
        };
        let map = MapRecord {
            name: "da".into(),
            camera: 0,
            labels: ["rest".to_string(), "road".to_string()].into(),
            fractions: vec![2.0 / 3.0, 1.0 / 3.0],
            file: Some("masks/0002.surface.png".into()),
            size: (3, 1),
            pixels: [0, 0, 1].into(),
        };
        let stop = ClassRecord {
            class: 3,
            label: "stop".into(),
            score: 0.99,
        };
        let item = ItemRecord {
            camera: 0,
            crop: None,
            top: vec![stop.clone()],
        };
        let crop = CropRecord {
            detection: 3,
            class: 5,
            bounds: [10.0, 20.5, 30.25, 40.126],
        };
        let sign = ItemRecord {
            camera: 0,
            crop: Some(crop),
            top: vec![stop],
        };
        let tenants = vec![
            tenant("scout", Status::Fresh, Some(3), Output::Detections(vec![car])),
            tenant("surface", Status::Held, Some(2), Output::Maps(vec![map])),
            tenant("signal", Status::Stale, Some(1), Output::Items(vec![item])),
            tenant("signs", Status::Fresh, Some(3), Output::Items(vec![sign])),
            tenant("late", Status::None, None, Output::Detections(vec![])),
        ];
        let expected = concat!(
            r#"{"frame":3,"source":"0003.jpg","task_set":"urban","plan":"ab","tenants":{"#,
            r#""scout":{"kind":"detection","status":"fresh","of_frame":3,"detections":["#,
            r#"{"class":2,"label":"car","score":0.884,"box":[1050.05,404.3,1274.84,0.0]}]},"#,
            r#""surface":{"kind":"segmentation","status":"held","of_frame":2,"maps":{"da":{"labels":["rest","road"],"#,
            r#""fractions":[0.6667,0.3333],"file":"masks/0002.surface.png"}}},"#,
            r#""signal":{"kind":"classification","status":"stale","of_frame":1,"items":[{"top":["#,
            r#"{"class":3,"label":"stop","score":0.99}]}]},"#,
            r#""signs":{"kind":"classification","status":"fresh","of_frame":3,"items":[{"detection":3,"#,
            r#""box":[10.0,20.5,30.25,40.13],"top":[{"class":3,"label":"stop","score":0.99}]}]},"#,
            r#""late":{"kind":"detection","status":"none","of_frame":null,"detections":[]}}}"#,
        );
        assert_eq!(frame(tenants).to_json().to_string(), expected);
    }

    #[test]
    fn several_cameras_name_their_files() {
        let mut record = frame(vec![]);
        record.sources.push(("rear".into(), None));
        assert_eq!(record.to_json()["source"].to_string(), r#"{"front":"0003.jpg","rear":null}"#);
    }

    #[test]
    fn numbers_have_a_fixed_count_of_decimals() {
        let text = |v: f64, n| decimals(v, n).to_string();
        assert_eq!(text(f64::from(0.3f32), 4), "0.3");
        assert_eq!(text(1.23456, 4), "1.2346");
        assert_eq!(text(-0.00001, 4), "0.0");
        assert_eq!(text(f64::from(f32::NAN), 4), "null");
        assert_eq!(text(1e-300, 2), "0.0");
        assert_eq!(text(f64::from(f32::MAX), 2), "3.4028234663852886e+38");
    }
}
