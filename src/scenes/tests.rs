//! What must hold of every drive: the same pixels everywhere, a truth that agrees with the picture, motion without jumps.

use std::collections::BTreeMap;

use super::truth::{MIN_HEIGHT, MIN_VISIBLE};
use super::{Class, Drive, Frame, HEIGHT, Object, Renderer, Signal, Surface, WIDTH};

fn frame(renderer: &mut Renderer, seed: u64, number: u32) -> Frame {
    let mut frame = Frame::default();
    renderer.render(&Drive::new(seed), number, &mut frame);
    frame
}

/// FNV-1a of bytes.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

fn digest(frame: &Frame) -> u64 {
    let mut hash = fnv(fnv(0xCBF2_9CE4_8422_2325, &frame.pixels), &frame.labels);
    for object in &frame.objects {
        let Object {
            id,
            class,
            signal,
            bounds,
            visible,
            ignored,
        } = *object;
        let signal = signal.map_or(255, |signal| signal as u8);
        for word in [
            id,
            class as u32,
            u32::from(signal),
            bounds[0],
            bounds[1],
            bounds[2],
            bounds[3],
            u32::from(visible),
            u32::from(ignored),
        ] {
            hash = fnv(hash, &word.to_le_bytes());
        }
    }
    hash
}

/// Frames by day and night, in sun, fog, rain and snow, at the start of a drive and hours into it.
const STORED: [(u64, u32, u64); 10] = [
    (1, 0, 0x5BAF_78EF_9A6A_6FF8),
    (2, 17, 0x6BC7_11A3_91B0_1370),
    (3, 240, 0xC92A_6E7D_FB54_1204),
    (21, 0, 0x9CCB_033C_D0D5_A9F5),
    (35, 455, 0x4721_F50B_58A0_C165),
    (66, 40, 0x4ACD_AC21_3322_7A2E),
    (117, 221, 0xE992_C2D5_E671_DF6B),
    (125, 325, 0x9B37_4D4C_4184_0F9C),
    (204, 68, 0x5C6F_2D5B_73C8_9D63),
    (100_000, 36_000, 0xDFAE_4CC2_A9C6_0A1F),
];

#[test]
fn stored_frames_are_the_same_on_every_machine() {
    let mut renderer = Renderer::new();
    let made: Vec<_> = STORED
        .iter()
        .map(|&(seed, number, _)| (seed, number, digest(&frame(&mut renderer, seed, number))))
        .collect();
    assert_eq!(made, STORED, "{made:#x?}");
}

#[test]
fn a_frame_depends_on_nothing_but_seed_and_number() {
    let mut one = Renderer::new();
    let frames: Vec<Frame> = [(5, 0), (5, 90), (6, 90), (5, 91)]
        .map(|(seed, number)| frame(&mut one, seed, number))
        .into();
    let mut other = Renderer::new();
    // In another order, into a frame full of something else.
    let mut reused = frame(&mut other, 77, 3);
    other.render(&Drive::new(5), 91, &mut reused);
    assert!(reused == frames[3]);
    other.render(&Drive::new(5), 0, &mut reused);
    assert!(reused == frames[0]);
    other.render(&Drive::new(6), 90, &mut reused);
    assert!(reused == frames[2]);
    other.render(&Drive::new(5), 90, &mut reused);
    assert!(reused == frames[1]);
}

/// Whether the label map shows a surface inside a box.
fn shows(frame: &Frame, bounds: [u32; 4], surface: Surface) -> bool {
    let [left, top, right, bottom] = bounds.map(|edge| edge as usize);
    (top..bottom).any(|row| frame.labels[row * WIDTH + left..row * WIDTH + right].contains(&(surface as u8)))
}

/// Whether every border of a box touches a pixel of the surface.
fn is_tight(frame: &Frame, bounds: [u32; 4], surface: Surface) -> bool {
    let [left, top, right, bottom] = bounds;
    [
        [left, top, right, top + 1],
        [left, bottom - 1, right, bottom],
        [left, top, left + 1, bottom],
        [right - 1, top, right, bottom],
    ]
    .into_iter()
    .all(|border| shows(frame, border, surface))
}

#[test]
fn the_truth_agrees_with_the_picture() {
    let mut renderer = Renderer::new();
    for seed in 0..60 {
        for number in [seed as u32 * 7, 1000 + seed as u32] {
            let frame = frame(&mut renderer, seed, number);
            assert_eq!((frame.pixels.len(), frame.labels.len()), (WIDTH * HEIGHT * 3, WIDTH * HEIGHT));
            assert!(frame.labels.iter().all(|&label| label <= Surface::Other as u8));
            let mut ids: Vec<u32> = frame.objects.iter().map(|object| object.id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), frame.objects.len(), "seed {seed} frame {number}: an id twice");
            for object in &frame.objects {
                let [left, top, right, bottom] = object.bounds;
                assert!(
                    left < right && right <= WIDTH as u32 && top < bottom && bottom <= HEIGHT as u32,
                    "{object:?}"
                );
                assert!(object.visible <= 1000, "{object:?}");
                if !object.ignored {
                    assert!(bottom - top >= MIN_HEIGHT && object.visible >= MIN_VISIBLE, "{object:?}");
                }
                let speaks = matches!(object.class, Class::TrafficLight | Class::TrafficSign);
                assert_eq!(object.signal.is_some(), speaks, "{object:?}");
                assert_eq!(
                    object.class == Class::TrafficLight,
                    object.signal.is_some_and(|signal| signal <= Signal::Off),
                    "{object:?}"
                );
                let surface = match object.class {
                    Class::Car | Class::Truck => Surface::Vehicle,
                    Class::Person | Class::Cyclist => Surface::Person,
                    Class::TrafficLight | Class::TrafficSign => Surface::Other,
                };
                assert!(is_tight(&frame, object.bounds, surface), "seed {seed} frame {number}: {object:?}");
            }
            // Every pixel of a vehicle or person lies in the box of one, but for those too far to be listed.
            let boxed = |at: usize, of: [Class; 2]| {
                let (x, y) = ((at % WIDTH) as u32, (at / WIDTH) as u32);
                let holds = |b: [u32; 4]| x >= b[0] && x < b[2] && y >= b[1] && y < b[3];
                frame
                    .objects
                    .iter()
                    .any(|object| of.contains(&object.class) && holds(object.bounds))
            };
            for (surface, of) in [
                (Surface::Vehicle, [Class::Car, Class::Truck]),
                (Surface::Person, [Class::Person, Class::Cyclist]),
            ] {
                let all = frame.labels.iter().filter(|&&label| label == surface as u8).count();
                let astray = frame
                    .labels
                    .iter()
                    .enumerate()
                    .filter(|&(at, &label)| label == surface as u8 && !boxed(at, of))
                    .count();
                assert!(
                    astray <= 1000 + all / 50,
                    "seed {seed} frame {number}: {astray} of {all} pixels of {surface:?} in no box"
                );
            }
        }
    }
}

#[test]
fn every_class_and_signal_appears_about_equally_often() {
    let mut renderer = Renderer::new();
    let (mut classes, mut signals) = ([0u32; 6], [0u32; 17]);
    let mut frame = Frame::default();
    for seed in 0..120 {
        let drive = Drive::new(seed);
        for number in [30, 222] {
            renderer.render(&drive, number, &mut frame);
            for object in frame.objects.iter().filter(|object| !object.ignored) {
                classes[object.class as usize] += 1;
                if let Some(signal) = object.signal {
                    signals[signal as usize] += 1;
                }
            }
        }
    }
    assert!(classes.iter().all(|&count| count > 80), "{classes:?}");
    // Lights have their phases, signs are drawn with equal chances; false alarms are no objects.
    assert!(signals[..16].iter().all(|&count| count >= 8), "{signals:?}");
    assert_eq!(signals[Signal::Other as usize], 0);
}

#[test]
fn things_keep_their_numbers_and_do_not_jump() {
    let mut renderer = Renderer::new();
    for seed in 0..12 {
        let drive = Drive::new(seed);
        let mut last: BTreeMap<u32, Object> = BTreeMap::new();
        let mut frame = Frame::default();
        let (mut kept, mut seen) = (0, 0);
        for number in 100..130 {
            renderer.render(&drive, number, &mut frame);
            for object in &frame.objects {
                seen += 1;
                let Some(before) = last.get(&object.id) else { continue };
                kept += 1;
                assert_eq!(before.class, object.class, "seed {seed} frame {number}");
                if object.class == Class::TrafficSign {
                    assert_eq!(before.signal, object.signal, "a sign changed its face");
                }
                // Whole things only: the box of one that comes out from behind another may jump.
                if before.visible > 970 && object.visible > 970 {
                    let middle = |b: [u32; 4]| [(b[0] + b[2]) as i32 / 2, (b[1] + b[3]) as i32 / 2];
                    let high = (object.bounds[3] - object.bounds[1]) as i32;
                    let (a, b) = (middle(before.bounds), middle(object.bounds));
                    let moved = (a[0] - b[0]).abs().max((a[1] - b[1]).abs());
                    assert!(moved < 24 + high * 2, "seed {seed} frame {number}: {before:?} to {object:?}");
                }
            }
            last = frame.objects.iter().map(|object| (object.id, *object)).collect();
        }
        assert!(kept * 10 > seen * 8, "seed {seed}: {kept} of {seen} were there before");
    }
}
