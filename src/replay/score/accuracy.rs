//! The figures of a score: for people in a table's cell, for programs as `score.json`.

use crate::replay::results::decimals;
use serde_json::{Map, Value, json};

/// What a figure measures. Each is a share, 0 to 1; higher is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Mean average precision of detections at an IoU of 0.5.
    Map50,
    /// Mean intersection over union of label maps.
    Miou,
    /// Share of the found lights and signs that were understood.
    Top1,
}

impl Measure {
    /// All of them, in the order they are written in.
    pub const ALL: [Measure; 3] = [Measure::Map50, Measure::Miou, Measure::Top1];

    /// Its key in `score.json`.
    pub const fn key(self) -> &'static str {
        match self {
            Measure::Map50 => "map50",
            Measure::Miou => "miou",
            Measure::Top1 => "top1",
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Measure::Map50 => "mAP@0.5",
            Measure::Miou => "mIoU",
            Measure::Top1 => "top-1",
        }
    }
}

/// How right a replay's results were.
#[derive(Clone, Debug, PartialEq)]
pub struct Accuracy {
    /// Frames with ground truth.
    pub frames: u64,
    /// Every tenant in the plan's order.
    pub tenants: Vec<TenantAccuracy>,
}

/// How right one tenant's results were.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantAccuracy {
    /// The tenant's name.
    pub name: String,
    /// Frames that it had a fresh result in.
    pub frames: u64,
    /// Its figures, or why there are none.
    pub figures: Result<Figures, String>,
}

/// The figures of one tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// What they measure.
    pub measure: Measure,
    /// Over all classes; `None` where the frames had nothing to score.
    pub value: Option<f64>,
    /// By class: those that the tenant and the ground truth share.
    pub classes: Vec<(&'static str, Option<f64>)>,
    /// Classes of the ground truth that the tenant has no label for: they are not in the figure.
    pub unnamed: Vec<&'static str>,
}

impl Accuracy {
    /// The figure of the task set: that of its first tenant that is scored by `measure`.
    pub fn of(&self, measure: Measure) -> Option<f64> {
        let figures = self.tenants.iter().filter_map(|t| t.figures.as_ref().ok());
        figures.filter(|f| f.measure == measure).find_map(|f| f.value)
    }

    /// The figures for programs: `map50`, `miou` and `top1` of the task set, null where it has no such tenant, then every
    /// tenant with its classes.
    pub fn to_json(&self) -> Value {
        let mut all: Map<String, Value> = Measure::ALL
            .into_iter()
            .map(|measure| (measure.key().to_string(), share(self.of(measure))))
            .collect();
        all.insert("frames".into(), json!(self.frames));
        let tenants: Map<String, Value> = self.tenants.iter().map(|t| (t.name.clone(), t.to_json())).collect();
        all.insert("tenants".into(), Value::Object(tenants));
        Value::Object(all)
    }
}

impl TenantAccuracy {
    fn to_json(&self) -> Value {
        match &self.figures {
            Err(reason) => json!({ "unscored": reason }),
            Ok(figures) => {
                let classes: Map<String, Value> = figures.classes.iter().map(|c| (c.0.to_string(), share(c.1))).collect();
                let mut tenant = json!({ figures.measure.key(): share(figures.value), "frames": self.frames, "classes": classes });
                if !figures.unnamed.is_empty() {
                    tenant["unnamed"] = json!(figures.unnamed);
                }
                tenant
            }
        }
    }

    /// The figure for people.
    pub fn to_text(&self) -> String {
        match &self.figures {
            Ok(Figures {
                measure,
                value: Some(value),
                classes,
                unnamed,
            }) => {
                let of = match unnamed.len() {
                    0 => String::new(),
                    left => format!(" ({} of {} classes)", classes.len(), classes.len() + left),
                };
                format!("{} {value:.3}{of}", measure.name())
            }
            Ok(figures) => format!("{} none", figures.measure.name()),
            Err(_) => "-".into(),
        }
    }
}

fn share(value: Option<f64>) -> Value {
    value.map_or(Value::Null, |v| decimals(v, 6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_written_as_documented() {
        let tenant = |name: &str, figures| TenantAccuracy {
            name: name.into(),
            frames: 30,
            figures,
        };
        let miou = Figures {
            measure: Measure::Miou,
            value: Some(0.875),
            classes: vec![("road", Some(1.0)), ("sky", Some(0.75)), ("person", None)],
            unnamed: vec![],
        };
        let accuracy = Accuracy {
            frames: 60,
            tenants: vec![tenant("surface", Ok(miou)), tenant("odd", Err("gives plain tensors".into()))],
        };
        assert_eq!(
            accuracy.to_json().to_string(),
            concat!(
                r#"{"map50":null,"miou":0.875,"top1":null,"frames":60,"tenants":{"surface":{"miou":0.875,"frames":30,"#,
                r#""classes":{"road":1.0,"sky":0.75,"person":null}},"odd":{"unscored":"gives plain tensors"}}}"#
            )
        );
        let cells: Vec<String> = accuracy.tenants.iter().map(TenantAccuracy::to_text).collect();
        assert_eq!(cells, ["mIoU 0.875", "-"]);
        let mut part = accuracy.tenants[0].clone();
        part.figures = part.figures.map(|figures| Figures {
            unnamed: vec!["vehicle"],
            ..figures
        });
        assert_eq!(part.to_text(), "mIoU 0.875 (3 of 4 classes)");
        assert_eq!(part.to_json()["unnamed"], json!(["vehicle"]));
    }
}
