//! Pictures for people: a frame with everything the tenants found in it.
//!
//! Label maps are blended over the picture, boxes drawn with class and score, lights and signs with what they say, and a
//! panel names each tenant with its findings and, where its result is not of this frame, says so.
pub mod canvas;
pub mod contact;
pub mod font;
pub mod palette;
mod panel;

use super::labels;
use super::picture::Picture;
use super::results::{ClassRecord, DetectionRecord, FrameRecord, MapRecord, Output, TenantRecord};
use crate::limits::MAX_IMAGE_SIDE;
use crate::primitive::Fit;
use crate::task::Status;
use canvas::{Canvas, Rect};

/// Share of a label's colour in a blended pixel, of 256 parts.
const MASK_ALPHA: u32 = 88;
/// Plates that may stand above each other; where more would be needed, a box goes without its name.
const STACKED: usize = 3;

/// Draws the results of `frame` that have a place in the picture of `camera` (an index of the table): maps, boxes, names.
pub fn draw(picture: Picture, frame: &FrameRecord, camera: usize) -> Picture {
    let scale = scale(picture.height());
    let mut canvas = Canvas::new(picture);
    for map in frame.tenants.iter().flat_map(|t| maps(t, camera)) {
        blend(&mut canvas, map);
    }
    for tenant in &frame.tenants {
        let thickness = if tenant.status == Status::Fresh {
            scale + 1
        } else {
            scale.div_ceil(2)
        } as i32;
        // The best box is drawn last, over the others.
        for detection in detections(tenant, camera).rev() {
            let color = palette::color(detection.class, &detection.label);
            canvas.outline(outline(detection.bounds), thickness, color);
        }
        for (bounds, best) in crops(tenant, camera) {
            canvas.outline(outline(bounds), thickness, palette::color(best.class, &best.label));
        }
    }
    name_boxes(&mut canvas, frame, camera, scale);
    canvas.finish()
}

/// Adds the panel: every tenant with its status and what it found, in words.
pub fn add_panel(picture: Picture, frame: &FrameRecord, camera: usize) -> Picture {
    let scale = scale(picture.height());
    let mut canvas = Canvas::new(picture);
    panel::draw(&mut canvas, frame, camera, scale);
    canvas.finish()
}

/// Names the boxes: first what lights and signs say, which is more than that they are there, then the others, near and
/// therefore high ones before those they may hide.
fn name_boxes(canvas: &mut Canvas, frame: &FrameRecord, camera: usize, scale: u32) {
    let mut plates = Vec::new();
    let mut read: Vec<[f32; 4]> = Vec::new();
    for (bounds, best) in frame.tenants.iter().flat_map(|t| crops(t, camera)) {
        let plate = Plate::new(best.class, &best.label, best.score, scale);
        let start = plate.beside(outline(bounds), canvas);
        plate.draw(start, canvas, &mut plates);
        read.push(bounds);
    }
    let all = frame.tenants.iter().flat_map(|t| detections(t, camera));
    let mut unread: Vec<&DetectionRecord> = all.filter(|d| !read.contains(&d.bounds)).collect();
    unread.sort_by_key(|d| std::cmp::Reverse(outline(d.bounds).height));
    for detection in unread {
        let plate = Plate::new(detection.class, &detection.label, detection.score, scale);
        let start = plate.above(outline(detection.bounds), canvas);
        plate.draw(start, canvas, &mut plates);
    }
}

/// Pixels a font dot, by the picture's height.
fn scale(height: u32) -> u32 {
    ((height + 180) / 360).clamp(1, 8)
}

fn maps(tenant: &TenantRecord, camera: usize) -> impl Iterator<Item = &MapRecord> {
    let all = match &tenant.output {
        Output::Maps(all) => all.as_slice(),
        _ => &[],
    };
    all.iter().filter(move |m| m.camera == camera)
}

fn detections(tenant: &TenantRecord, camera: usize) -> impl DoubleEndedIterator<Item = &DetectionRecord> {
    let all = match &tenant.output {
        Output::Detections(all) => all.as_slice(),
        _ => &[],
    };
    all.iter().filter(move |d| d.camera == camera)
}

/// The box of each crop with the best of its classes.
fn crops(tenant: &TenantRecord, camera: usize) -> impl Iterator<Item = ([f32; 4], &ClassRecord)> {
    let all = match &tenant.output {
        Output::Items(all) => all.as_slice(),
        _ => &[],
    };
    let of_camera = all.iter().filter(move |i| i.camera == camera);
    of_camera.filter_map(|i| Some((i.crop?.bounds, i.top.first()?)))
}

fn blend(canvas: &mut Canvas, map: &MapRecord) {
    let label_color = |label: u8| {
        let name = map.labels.get(usize::from(label)).map_or("", String::as_str);
        (!palette::is_background(usize::from(label), name)).then(|| palette::color(label.into(), name))
    };
    let size = (canvas.width(), canvas.height());
    if map.size == size {
        canvas.labels(&map.pixels, label_color, MASK_ALPHA);
    } else if let Some(pixels) = labels::to_source(&map.pixels, map.size, Fit::Stretch, size) {
        // A held map of an earlier picture of another size.
        canvas.labels(&pixels, label_color, MASK_ALPHA);
    }
}

/// The rectangle of a box, its right and bottom edge included.
fn outline(bounds: [f32; 4]) -> Rect {
    // Far outside every picture is as good as infinity.
    let far = 4.0 * MAX_IMAGE_SIDE as f32;
    let [x0, y0, x1, y1] = bounds.map(|v| v.round().clamp(-far, far) as i32);
    Rect {
        x: x0,
        y: y0,
        width: x1 - x0 + 1,
        height: y1 - y0 + 1,
    }
}

/// A class and its score on a plate.
struct Plate {
    text: String,
    color: canvas::Color,
    scale: u32,
    size: Rect,
}

impl Plate {
    fn new(class: u32, label: &str, score: f32, scale: u32) -> Plate {
        let text = format!("{} {:.0}%", name(label, class), 100.0 * score);
        Plate {
            size: canvas::plate_size(&text, scale),
            text,
            color: palette::color(class, label),
            scale,
        }
    }

    /// Above a box, or inside its top edge where the picture ends.
    fn above(&self, rect: Rect, canvas: &Canvas) -> (i32, i32) {
        let above = rect.y - self.size.height;
        let x = rect.x.min(canvas.width() as i32 - self.size.width).max(0);
        (x, if above >= 0 { above } else { rect.y.max(0) })
    }

    /// To the right of a box, or to its left where the picture ends.
    fn beside(&self, rect: Rect, canvas: &Canvas) -> (i32, i32) {
        let right = rect.x.saturating_add(rect.width);
        let fits = right <= canvas.width() as i32 - self.size.width;
        let x = if fits { right } else { rect.x - self.size.width };
        (x.max(0), rect.y.min(canvas.height() as i32 - self.size.height).max(0))
    }

    /// Draws the plate at `(x, y)`; higher, where another one is in the way. Adds it to `plates`. Where others are in the
    /// way up to the picture's edge or too far up, it is left out.
    fn draw(self, (x, y): (i32, i32), canvas: &mut Canvas, plates: &mut Vec<Rect>) {
        let mut place = Rect { x, y, ..self.size };
        for _ in 0..STACKED {
            let Some(other) = plates.iter().find(|other| place.meets(other)) else {
                canvas.plate(place.x, place.y, &self.text, self.scale, self.color);
                plates.push(place);
                return;
            };
            place.y = other.y - place.height;
            if place.y < 0 {
                return;
            }
        }
    }
}

/// A class's name, or its number where it has none.
fn name(label: &str, class: u32) -> String {
    if label.is_empty() {
        format!("class {class}")
    } else {
        label.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::results::{CropRecord, ItemRecord};

    fn frame(status: Status, output: Output) -> FrameRecord {
        let tenant = TenantRecord {
            name: "scout".into(),
            status,
            of_frame: Some(0),
            output,
        };
        FrameRecord {
            frame: 4,
            sources: vec![("front".into(), Some("a.jpg".into()))],
            task_set: "urban".into(),
            plan: String::new(),
            tenants: vec![tenant],
        }
    }

    fn grey(width: u32, height: u32) -> Picture {
        Picture::filled(width, height, [90; 3]).unwrap()
    }

    fn changed(picture: &Picture) -> Vec<(usize, usize)> {
        let (w, h) = picture.size();
        (0..h as usize)
            .flat_map(|y| (0..w as usize).map(move |x| (x, y)))
            .filter(|&(x, y)| picture.pixel(x, y) != [90; 3])
            .collect()
    }

    fn car(bounds: [f32; 4]) -> Output {
        Output::Detections(vec![DetectionRecord {
            camera: 0,
            class: 2,
            label: "car".into(),
            score: 0.88,
            bounds,
        }])
    }

    #[test]
    fn a_box_is_drawn_where_it_is_with_its_plate_above() {
        let with = draw(grey(640, 360), &frame(Status::Fresh, car([400.0, 200.0, 500.0, 260.0])), 0);
        let without = draw(grey(640, 360), &frame(Status::Fresh, Output::Detections(vec![])), 0);
        assert_eq!(with.pixel(400, 230), palette::color(2, "car"));
        assert_eq!(with.pixel(450, 230), [90; 3]);
        assert_ne!(with.pixel(404, 195), [90; 3]);
        assert_eq!(without.pixel(404, 195), [90; 3]);
    }

    #[test]
    fn plates_of_boxes_in_one_place_stand_above_each_other() {
        let Output::Detections(mut all) = car([400.0, 200.0, 500.0, 260.0]) else {
            unreachable!("cars are detections")
        };
        all.push(DetectionRecord {
            class: 7,
            label: "truck".into(),
            score: 0.4,
            ..all[0].clone()
        });
        let both = draw(grey(640, 360), &frame(Status::Fresh, Output::Detections(all)), 0);
        let plate = canvas::plate_size("car 88%", scale(360));
        // One pixel inside the left edge of each plate, left of its text.
        let at = |row: i32| both.pixel(401, (200 - plate.height * row - plate.height / 2) as usize);
        assert_eq!(at(0), canvas::mix([90; 3], palette::color(2, "car"), 230));
        assert_eq!(at(1), canvas::mix([90; 3], palette::color(7, "truck"), 230));
        assert_eq!(at(2), [90; 3]);
    }

    #[test]
    fn a_crops_class_is_named_beside_its_box() {
        let item = |bounds| ItemRecord {
            camera: 0,
            crop: Some(CropRecord {
                detection: 0,
                class: 5,
                bounds,
            }),
            top: vec![ClassRecord {
                class: 4,
                label: "stop".into(),
                score: 0.99,
            }],
        };
        let color = palette::color(4, "stop");
        let plate = canvas::mix([90; 3], color, 230);
        let drawn = |bounds| draw(grey(640, 360), &frame(Status::Fresh, Output::Items(vec![item(bounds)])), 0);
        let right = drawn([400.0, 200.0, 420.0, 220.0]);
        assert_eq!(
            (right.pixel(400, 210), right.pixel(410, 210), right.pixel(422, 202)),
            (color, [90; 3], plate)
        );
        // At the right edge there is room on the left only.
        let left = drawn([610.0, 200.0, 630.0, 220.0]);
        assert_eq!((left.pixel(636, 202), left.pixel(608, 202)), ([90; 3], plate));
    }

    #[test]
    fn a_box_that_was_read_is_named_by_what_it_says_alone() {
        let bounds = [400.0, 200.0, 420.0, 220.0];
        let mut both = frame(Status::Fresh, car(bounds));
        let says = |bounds| ItemRecord {
            camera: 0,
            crop: Some(CropRecord {
                detection: 0,
                class: 2,
                bounds,
            }),
            top: vec![ClassRecord {
                class: 4,
                label: "stop".into(),
                score: 0.99,
            }],
        };
        // Just above the box, where the detector's plate stands.
        let above = |frame: &FrameRecord| draw(grey(640, 360), frame, 0).pixel(401, 195);
        assert_ne!(above(&both), [90; 3]);
        both.tenants.push(TenantRecord {
            name: "signal".into(),
            output: Output::Items(vec![says(bounds)]),
            ..both.tenants[0].clone()
        });
        assert_eq!(above(&both), [90; 3]);
        both.tenants[1].output = Output::Items(vec![says([10.0, 100.0, 30.0, 120.0])]);
        assert_ne!(above(&both), [90; 3], "another box was read");
    }

    #[test]
    fn a_crowd_does_not_pile_its_plates_up() {
        let Output::Detections(one) = car([400.0, 200.0, 500.0, 260.0]) else {
            unreachable!("cars are detections")
        };
        let crowd = Output::Detections(vec![one[0].clone(); 20]);
        let picture = draw(grey(640, 360), &frame(Status::Fresh, crowd), 0);
        let plate = canvas::plate_size("car 88%", scale(360)).height;
        let highest = changed(&picture).iter().map(|&(_, y)| y as i32).min().unwrap();
        assert_eq!(highest, 200 - STACKED as i32 * plate);
    }

    #[test]
    fn results_of_another_camera_are_not_drawn() {
        let boxed = frame(Status::Fresh, car([400.0, 200.0, 500.0, 260.0]));
        assert_eq!(draw(grey(640, 360), &boxed, 1).pixel(400, 230), [90; 3]);
    }

    #[test]
    fn wild_numbers_do_no_harm() {
        for bounds in [
            [f32::NAN; 4],
            [-1e30, -1e30, 1e30, 1e30],
            [9.0, 9.0, -9.0, -9.0],
            [f32::INFINITY; 4],
        ] {
            let picture = draw(grey(64, 48), &frame(Status::Stale, car(bounds)), 0);
            assert_eq!(picture.size(), (64, 48));
        }
    }

    #[test]
    fn maps_tint_all_but_the_background_and_follow_the_picture_size() {
        let map = |size: (u32, u32)| MapRecord {
            name: "da".into(),
            camera: 0,
            labels: ["background".to_string(), "road".to_string()].into(),
            fractions: vec![0.5, 0.5],
            file: None,
            size,
            pixels: (0..size.0 * size.1).map(|i| u8::from(i % size.0 >= size.0 / 2)).collect(),
        };
        for size in [(640, 360), (320, 180)] {
            let picture = draw(grey(640, 360), &frame(Status::Held, Output::Maps(vec![map(size)])), 0);
            assert_eq!(picture.pixel(500, 300), canvas::mix([90; 3], palette::color(1, "road"), MASK_ALPHA));
            assert!(
                changed(&picture).iter().all(|&(x, y)| x >= 320 || y >= 270),
                "the background stays as it is"
            );
        }
    }

    #[test]
    fn a_held_result_looks_different_from_a_fresh_one() {
        let top = |status| {
            let class = ClassRecord {
                class: 7,
                label: "bus".into(),
                score: 0.5,
            };
            let item = ItemRecord {
                camera: 0,
                crop: None,
                top: vec![class],
            };
            let frame = frame(status, Output::Items(vec![item]));
            // What a whole picture shows has no place in it: the panel alone says it.
            let drawn = draw(grey(640, 360), &frame, 0);
            assert!(changed(&drawn).is_empty());
            add_panel(drawn, &frame, 0)
        };
        assert_ne!(top(Status::Fresh), top(Status::Held));
        assert_ne!(top(Status::Held), top(Status::Stale));
        assert!(!changed(&top(Status::Fresh)).is_empty());
    }
}
