//! Frames through the C ABI and through the Rust path: the same results, floats bit for bit.

use crate::av::image;
use crate::data;
use crate::plans::{driving, folder};
use crate::toolchain::{Language, Link, Program, SANITIZE, build, needs, run};
use platoon::capi::values::{dtype, kind};
use platoon::replay::picture::Picture;
use platoon::replay::source::{Input, Source};
use platoon::runtime::{Detection, Engine, Options, Ticket};
use platoon::task::Status;
use std::fmt::Write;
use std::path::Path;

/// Every how many frames one comes without a picture.
const MISSING: usize = 5;

/// FNV-1a, as in replay.c.
fn hash(data: &[u8]) -> u64 {
    let step = |h: u64, &byte: &u8| (h ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    data.iter().fold(14_695_981_039_346_656_037, step)
}

fn detection(text: &mut String, what: char, found: &Detection, image: usize, row: usize, labels: &[String]) {
    let label = labels.get(found.class as usize).map_or("", |l| l.as_str());
    let [x0, y0, x1, y1] = found.bounds.map(f32::to_bits);
    let (class, score) = (found.class, found.score.to_bits());
    writeln!(
        text,
        "{what} {class} {label} {score:08x} {x0:08x} {y0:08x} {x1:08x} {y1:08x} {image} {row}"
    )
    .unwrap();
}

/// What replay.c writes of a frame.
fn tell(text: &mut String, engine: &mut Engine, ticket: Ticket) {
    let report = engine.wait(&ticket, None).unwrap();
    let set = engine.deployment().plans[report.plan.index()].task_set.clone();
    writeln!(text, "frame {} {set}", report.frame).unwrap();
    for tenant in &report.tenants {
        let result = engine.result(&ticket, tenant.tenant).unwrap();
        let of_frame = if result.status == Status::None { 0 } else { result.of_frame };
        let (name, kind, status) = (result.name(), kind(result.kind()), result.status as u32);
        writeln!(text, "tenant {name} {kind} {status} {of_frame} {}", result.images()).unwrap();
        for image in 0..result.images() {
            for (row, found) in result.detections_of(image).enumerate() {
                detection(text, 'd', &found, image, row, result.labels());
            }
        }
        let crops: Option<Vec<_>> = result.crops().map(Iterator::collect);
        for crop in crops.iter().flatten() {
            detection(text, 'c', &crop.detection, crop.image, crop.row, result.labels());
        }
        let images: Vec<usize> = crops.map_or((0..result.images()).collect(), |c| c.iter().map(|c| c.image).collect());
        for image in images {
            for (class, score) in result.top(image) {
                writeln!(text, "s {image} {class} {:08x}", score.to_bits()).unwrap();
            }
        }
        for map in result.maps() {
            let last = map.labels.last().map_or("", |l| l.as_str());
            let (name, image, width, height) = (map.name, map.image, map.width, map.height);
            writeln!(text, "m {name} {image} {width} {height} {last} {:016x}", hash(map.data)).unwrap();
        }
        for (port, bytes) in result.tensors().filter(|_| result.status != Status::None) {
            write!(text, "t {} {}", port.name, dtype(port.view.dtype)).unwrap();
            for extent in port.view.layout.shape.dims() {
                write!(text, " {extent}").unwrap();
            }
            writeln!(text, " {} {:016x}", bytes.len(), hash(bytes)).unwrap();
        }
    }
    engine.release(ticket).unwrap();
}

/// The Rust path over the same frames in the same order.
fn by_rust(plans: &Path, frames: &[Option<&Picture>]) -> String {
    let mut engine = Engine::open(&plans.join("host"), &Options::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let (mut text, mut ahead) = (String::new(), None);
    for (number, frame) in frames.iter().enumerate() {
        if number == frames.len() / 2 {
            engine.select("highway").unwrap();
        }
        let ticket = engine.submit(&[frame.map(image)]).unwrap();
        if let Some(before) = ahead.replace(ticket) {
            tell(&mut text, &mut engine, before);
        }
    }
    tell(&mut text, &mut engine, ahead.unwrap());
    text
}

/// Compares both paths over these pictures; some frame must give lines that begin with each of `lines`.
fn compare(name: &'static str, pictures: &[Picture], lines: &[&str]) {
    let plans = driving();
    let frames: Vec<Option<&Picture>> = pictures.iter().enumerate().map(|(f, p)| (f % MISSING != 3).then_some(p)).collect();
    let (width, height) = pictures[0].size();
    let mut file = Vec::new();
    for word in [frames.len() as u32, width, height] {
        file.extend(word.to_ne_bytes());
    }
    for frame in &frames {
        file.push(u8::from(frame.is_some()));
        if let Some(picture) = frame {
            assert_eq!(picture.size(), (width, height));
            file.extend(picture.rgb());
        }
    }
    let folder = folder(name);
    let (input, output) = (folder.join("frames"), folder.join("results"));
    std::fs::write(&input, file).unwrap();
    let program = build(&Program::of(Language::C, &["tests/c"], "replay").with(SANITIZE), Link::Static);
    let arguments = [plans.as_os_str(), "host".as_ref(), input.as_os_str(), output.as_os_str()];
    assert!(run(&program, &arguments).contains(&format!("replay: {} frames", frames.len())));
    let (c, rust) = (std::fs::read_to_string(&output).unwrap(), by_rust(&plans, &frames));
    for (number, (c, rust)) in c.lines().zip(rust.lines()).enumerate() {
        assert_eq!(c, rust, "line {number}");
    }
    assert_eq!(c.lines().count(), rust.lines().count());
    for what in lines {
        assert!(c.lines().any(|l| l.starts_with(*what)), "no frame gave a line {what:?}");
    }
}

#[test]
fn a_drive_gives_the_same_results_as_the_rust_path() {
    if !needs("a_drive_gives_the_same_results_as_the_rust_path", &["gcc"]) {
        return;
    }
    let input: Input = "synthetic:3".parse().unwrap();
    let source = Source::open(&input, &[("front", true)]).unwrap();
    let pictures = source
        .shots(8)
        .map(|shot| shot.pictures.into_iter().next().unwrap().unwrap().unwrap());
    let pictures: Vec<Picture> = pictures.collect();
    compare("synthetic", &pictures, &["d ", "c ", "s ", "m ", "t "]);
}

#[test]
fn real_frames_give_the_same_results_as_the_rust_path() {
    if !needs("real_frames_give_the_same_results_as_the_rust_path", &["gcc"]) {
        return;
    }
    let test = "real_frames_give_the_same_results_as_the_rust_path";
    let Some(folder) = data::need(test, &data::av_data().join("frames/seq_vehicle")) else {
        return;
    };
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "jpg" || e == "png"));
    files.sort();
    let pictures: Vec<Picture> = files.iter().take(6).map(|f| Picture::read(f).unwrap()).collect();
    compare("recorded", &pictures, &["d ", "m ", "t "]);
    data::ran(test, "6 frames of seq_vehicle");
}
