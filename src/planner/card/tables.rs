//! The card's tables as they stand in the file, and the checks that make a [`Card`] of them.

use super::{Card, CardInput, CropCard, Decode, MAX_DETECTIONS, MapCard, Measured};
use crate::limits::{MAX_CROPS, MAX_FILE_PART, MAX_IMAGE_SIDE, MAX_LABELS, MAX_NAME, MAX_RANK};
use crate::plan::format::Digest;
use crate::planner::document::{Document, TomlError, read_text};
use crate::primitive::{ColorOrder, Fit, MAX_CROP_MARGIN};
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardTable {
    name: Spanned<String>,
    onnx: Spanned<String>,
    digest: Option<Spanned<String>>,
    source: String,
    licence: String,
    dtype: Option<DTypeName>,
    input: Option<InputTable>,
    detection: Option<Spanned<DetectionTable>>,
    segmentation: Option<Spanned<SegmentationTable>>,
    classification: Option<Spanned<ClassificationTable>>,
    accuracy: Option<AccuracyTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccuracyTable {
    metric: Spanned<String>,
    value: Spanned<f64>,
    task_set: Spanned<String>,
    input: Spanned<String>,
    frames: Spanned<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputTable {
    tensor: Option<String>,
    fit: Option<FitName>,
    fill: Option<u8>,
    order: Option<OrderName>,
    mean: Option<Spanned<[f32; 3]>>,
    std: Option<Spanned<[f32; 3]>>,
    crops: Option<Spanned<CropTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CropTable {
    classes: Spanned<Vec<String>>,
    margin: Option<Spanned<f32>>,
    count: Option<Spanned<u32>>,
}

/// The one type that a card may insist on: f16 is the plan's to choose.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DTypeName {
    F32,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FitName {
    Stretch,
    LetterboxTopLeft,
    LetterboxCentred,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OrderName {
    Rgb,
    Bgr,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Decoder {
    Yolox,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DetectionTable {
    decoder: Decoder,
    output: Option<String>,
    score: Spanned<f32>,
    iou: Spanned<f32>,
    max: Spanned<u32>,
    labels: Option<Spanned<Labels>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SegmentationTable {
    maps: Vec<MapTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MapTable {
    name: Option<Spanned<String>>,
    output: Spanned<String>,
    axis: Spanned<usize>,
    resize: Option<Spanned<(u32, u32)>>,
    labels: Option<Spanned<Labels>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassificationTable {
    output: Option<String>,
    k: Spanned<u32>,
    #[serde(default)]
    softmax: bool,
    labels: Option<Spanned<Labels>>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "`labels` is neither the path of a file with one label a line nor an array of strings"
)]
enum Labels {
    File(String),
    Inline(Vec<String>),
}

/// A card from its document.
pub(super) fn parse(document: &Document) -> Result<Card, TomlError> {
    let table: CardTable = document.parse()?;
    let digest = table
        .digest
        .map(|text| {
            let reason = "`digest` is not a SHA-256 in hexadecimal: 64 digits, as `sha256sum` prints them";
            parse_digest(text.get_ref()).ok_or_else(|| document.invalid(&text.span(), reason))
        })
        .transpose()?;
    let decode = match (table.detection, table.segmentation, table.classification) {
        (None, None, None) => Decode::Tensors,
        (Some(t), None, None) => detection(document, t.into_inner())?,
        (None, Some(t), None) => segmentation(document, t)?,
        (None, None, Some(t)) => classification(document, t.into_inner())?,
        (d, s, c) => {
            let last = [d.map(|t| t.span()), s.map(|t| t.span()), c.map(|t| t.span())];
            let last = last.into_iter().flatten().max_by_key(|s| s.start).unwrap_or(0..0);
            return Err(document.invalid(&last, "a card has only one of `detection`, `segmentation` and `classification`"));
        }
    };
    let crops = table.input.as_ref().and_then(|i| i.crops.as_ref()).map(|c| c.span());
    let classifies = matches!(decode, Decode::Classification { .. });
    let reason = "a network over `crops` classifies them: it needs `[classification]`";
    document.need(crops.is_none() || classifies, &crops.unwrap_or(0..0), reason)?;
    Ok(Card {
        name: document.file_part("name", table.name)?,
        path: document.path().to_owned(),
        onnx: document.locate(table.onnx.get_ref(), &table.onnx.span())?,
        digest,
        source: table.source,
        licence: table.licence,
        single: matches!(table.dtype, Some(DTypeName::F32)),
        input: input(document, table.input)?,
        decode,
        accuracy: table.accuracy.map(|t| accuracy(document, t)).transpose()?,
    })
}

fn accuracy(document: &Document, table: AccuracyTable) -> Result<Measured, TomlError> {
    let inside = (0.0..=1.0).contains(table.value.get_ref());
    document.need(inside, &table.value.span(), "`value` must be in 0..=1")?;
    let known = ["map50", "miou", "top1"].contains(&table.metric.get_ref().as_str());
    document.need(known, &table.metric.span(), "`metric` is map50, miou or top1")?;
    document.need(*table.frames.get_ref() >= 1, &table.frames.span(), "`frames` must be at least 1")?;
    Ok(Measured {
        metric: document.name("metric", table.metric)?,
        value: table.value.into_inner(),
        task_set: document.name("task_set", table.task_set)?,
        input: document.name("input", table.input)?,
        frames: table.frames.into_inner(),
    })
}

fn input(document: &Document, table: Option<InputTable>) -> Result<CardInput, TomlError> {
    let mut input = CardInput {
        tensor: None,
        fit: Fit::Stretch,
        fill: 0,
        order: ColorOrder::Rgb,
        mean: [0.0; 3],
        std: [1.0; 3],
        crops: None,
    };
    let Some(table) = table else { return Ok(input) };
    let fitted = table.fit.is_some() || table.fill.is_some();
    input.tensor = table.tensor;
    input.fit = match table.fit {
        None | Some(FitName::Stretch) => Fit::Stretch,
        Some(FitName::LetterboxTopLeft) => Fit::LetterboxTopLeft,
        Some(FitName::LetterboxCentred) => Fit::LetterboxCentred,
    };
    input.fill = table.fill.unwrap_or(0);
    input.order = match table.order {
        None | Some(OrderName::Rgb) => ColorOrder::Rgb,
        Some(OrderName::Bgr) => ColorOrder::Bgr,
    };
    if let Some(mean) = table.mean {
        document.need(mean.get_ref().iter().all(|m| m.is_finite()), &mean.span(), "`mean` must be finite")?;
        input.mean = mean.into_inner();
    }
    if let Some(std) = table.std {
        let usable = std.get_ref().iter().all(|s| s.is_finite() && *s != 0.0);
        document.need(usable, &std.span(), "`std` must be finite and not 0")?;
        // Infinities would go through the network in every frame, and nothing would be found in any.
        let ends = |(mean, std): (&f32, &f32)| [0.0, 255.0].iter().all(|pixel| ((pixel - mean) / std).is_finite());
        let usable = input.mean.iter().zip(std.get_ref()).all(ends);
        document.need(usable, &std.span(), "`std` is too small: (pixel - mean) / std is infinite")?;
        input.std = std.into_inner();
    }
    if let Some(table) = table.crops {
        let whole = table.span();
        document.need(!fitted, &whole, "`crops` are stretched to the input: leave `fit` and `fill` out")?;
        input.crops = Some(crops(document, table.into_inner())?);
    }
    Ok(input)
}

fn crops(document: &Document, table: CropTable) -> Result<CropCard, TomlError> {
    let span = table.classes.span();
    document.need(!table.classes.get_ref().is_empty(), &span, "`classes` names no class to cut out")?;
    let (margin, count) = (table.margin.as_ref(), table.count.as_ref());
    let (margin_span, count_span) = (margin.map_or(0..0, |m| m.span()), count.map_or(0..0, |c| c.span()));
    let (margin, count) = (margin.map_or(0.0, |m| *m.get_ref()), count.map(|c| *c.get_ref()));
    let inside = (0.0..=MAX_CROP_MARGIN).contains(&margin);
    document.need(inside, &margin_span, format!("`margin` must be in 0..={MAX_CROP_MARGIN}"))?;
    let inside = count.is_none_or(|c| (1..=MAX_CROPS).contains(&c));
    document.need(inside, &count_span, format!("`count` must be in 1..={MAX_CROPS}"))?;
    Ok(CropCard {
        classes: table.classes.into_inner(),
        margin,
        count,
    })
}

fn detection(document: &Document, table: DetectionTable) -> Result<Decode, TomlError> {
    let Decoder::Yolox = table.decoder;
    for (key, value) in [("score", &table.score), ("iou", &table.iou)] {
        let inside = (0.0..=1.0).contains(value.get_ref());
        document.need(inside, &value.span(), format!("`{key}` must be in 0..=1"))?;
    }
    let inside = (1..=MAX_DETECTIONS).contains(table.max.get_ref());
    document.need(inside, &table.max.span(), format!("`max` must be in 1..={MAX_DETECTIONS}"))?;
    Ok(Decode::Yolox {
        output: table.output,
        score: table.score.into_inner(),
        iou: table.iou.into_inner(),
        max: table.max.into_inner(),
        labels: labels(document, table.labels)?,
    })
}

fn segmentation(document: &Document, table: Spanned<SegmentationTable>) -> Result<Decode, TomlError> {
    let span = table.span();
    let tables = table.into_inner().maps;
    document.need(!tables.is_empty(), &span, "`maps` names no map")?;
    let mut maps: Vec<MapCard> = Vec::new();
    for map in tables {
        let place = map.name.as_ref().map_or(map.output.span(), |n| n.span());
        let output = document.name("output", map.output)?;
        let name = match map.name {
            Some(name) => document.file_part("name", name)?,
            None => output.clone(),
        };
        let short = name.len() <= MAX_FILE_PART;
        let reason = format!("the output's name has more than {MAX_FILE_PART} bytes: give the map a `name`, which files are named by");
        document.need(short, &place, reason)?;
        document.need(maps.iter().all(|m| m.name != name), &place, format!("there are two maps `{name}`"))?;
        let rank = format!("`axis` must be below {MAX_RANK}");
        document.need(*map.axis.get_ref() < MAX_RANK, &map.axis.span(), rank)?;
        if let Some(size) = &map.resize {
            let (w, h) = size.get_ref();
            let inside = [w, h].iter().all(|side| (1..=MAX_IMAGE_SIDE).contains(*side));
            let reason = format!("`resize` is [width, height], each in 1..={MAX_IMAGE_SIDE}");
            document.need(inside, &size.span(), reason)?;
        }
        maps.push(MapCard {
            name,
            output,
            axis: map.axis.into_inner(),
            resize: map.resize.map(Spanned::into_inner),
            labels: labels(document, map.labels)?,
        });
    }
    Ok(Decode::Segmentation { maps })
}

fn classification(document: &Document, table: ClassificationTable) -> Result<Decode, TomlError> {
    document.need(*table.k.get_ref() >= 1, &table.k.span(), "`k` must be at least 1")?;
    Ok(Decode::Classification {
        output: table.output,
        k: table.k.into_inner(),
        softmax: table.softmax,
        labels: labels(document, table.labels)?,
    })
}

fn labels(document: &Document, labels: Option<Spanned<Labels>>) -> Result<Vec<String>, TomlError> {
    let Some(labels) = labels else { return Ok(Vec::new()) };
    let span = labels.span();
    let labels: Vec<String> = match labels.into_inner() {
        Labels::Inline(labels) => labels,
        Labels::File(written) => {
            let path = document.locate(&written, &span)?;
            let text = read_text(&path).map_err(|source| TomlError::Read { path, source })?;
            text.trim_end().lines().map(|line| line.trim().to_owned()).collect()
        }
    };
    check_labels(document, &labels, &span)?;
    Ok(labels)
}

fn check_labels(document: &Document, labels: &[String], span: &Range<usize>) -> Result<(), TomlError> {
    let count = format!("`labels` has {} entries; at most {MAX_LABELS} are possible", labels.len());
    document.need(labels.len() <= MAX_LABELS, span, count)?;
    let long = labels.iter().position(|l| l.len() > MAX_NAME).map_or(0, |i| i + 1);
    document.need(long == 0, span, format!("label {long} of `labels` is longer than {MAX_NAME} bytes"))
}

/// A SHA-256 in hexadecimal, with or without `sha256:` before it.
fn parse_digest(text: &str) -> Option<Digest> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    if digits.len() != 64 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(Digest(bytes))
}
