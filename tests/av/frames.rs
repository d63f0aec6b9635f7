//! The loop on a recorded drive: the same bytes in every run, switches in flight, frames without an image or with a bad one.

use super::{av, data, plans};
use platoon::backend::Submission;
use platoon::error::RunError;
use platoon::ids::CameraId;
use platoon::plan::format::Digest;
use platoon::replay::picture::Picture;
use platoon::runtime::{Engine, FrameReport, Image, Options, TenantReport, Ticket};
use platoon::task::{PixelFormat, Status};

/// Frames of the drive.
const DRIVE: usize = 38;

/// The drive's frames whose number is a multiple of `step`.
fn drive(test: &str, step: usize) -> Option<Vec<Picture>> {
    let folder = data::need(test, &data::av_data())?.join("frames/seq_vehicle");
    let file = |i: usize| av::picture(&folder.join(format!("{i:04}.jpg")));
    Some((0..DRIVE).step_by(step).map(file).collect())
}

fn open(workers: usize, submission: Submission) -> Engine {
    let options = Options {
        workers: Some(workers),
        submission,
        ..Options::default()
    };
    Engine::open(plans(), &options).unwrap_or_else(|e| panic!("{e:?}"))
}

/// The report of a frame and the digest of all its results; its slot is free again.
fn finish(engine: &mut Engine, ticket: Ticket) -> (FrameReport, Digest) {
    let report = engine.wait(&ticket, None).unwrap();
    let mut bytes = Vec::new();
    for tenant in &report.tenants {
        let result = engine.result(&ticket, tenant.tenant).unwrap();
        bytes.extend(result.tensors().flat_map(|(_, b)| b.iter().copied()));
    }
    assert!(!bytes.is_empty());
    engine.release(ticket).unwrap();
    (report, Digest::of(&bytes))
}

/// Digests of all frames, one frame in flight while the one before is read.
fn run(engine: &mut Engine, pictures: &[&Picture]) -> Vec<Digest> {
    let mut digests = Vec::new();
    let mut ahead = None;
    for picture in pictures {
        let ticket = engine.submit(&[Some(av::image(picture))]).unwrap();
        if let Some(before) = ahead.replace(ticket) {
            digests.push(finish(engine, before).1);
        }
    }
    digests.extend(ahead.map(|last| finish(engine, last).1));
    digests
}

#[test]
fn a_drive_gives_the_same_bytes_in_every_run_with_any_workers_and_submission() {
    let test = "a_drive_gives_the_same_bytes_in_every_run_with_any_workers_and_submission";
    let Some(pictures) = drive(test, 1) else { return };
    let twice: Vec<&Picture> = pictures.iter().chain(&pictures).collect();
    let digests = run(&mut open(2, Submission::Frame), &twice);
    let (first, second) = digests.split_at(DRIVE);
    assert_eq!(first, second, "the second pass differs");
    assert!(first.windows(2).all(|w| w[0] != w[1]), "frames of a drive differ");
    // Frames do not depend on each other in this task set, so a part of them says as much.
    for (workers, submission) in [
        (1, Submission::Frame),
        (3, Submission::Frame),
        (1, Submission::Segments),
        (2, Submission::Segments),
    ] {
        let some: Vec<&Picture> = pictures.iter().step_by(8).collect();
        let expected: Vec<Digest> = first.iter().step_by(8).copied().collect();
        let found = run(&mut open(workers, submission), &some);
        assert_eq!(found, expected, "{workers} workers, {submission:?}");
    }
    data::ran(
        test,
        "38 frames twice on 2 workers; every eighth on 1 and 3, and segment by segment on 1 and 2",
    );
}

#[test]
fn task_sets_change_with_frames_in_flight() {
    let test = "task_sets_change_with_frames_in_flight";
    let Some(pictures) = drive(test, 20) else { return };
    let mut engine = open(2, Submission::Frame);
    // What each task set gives on its own, in an engine that never changes.
    let sets = ["urban", "highway", "parking"];
    let alone: Vec<Vec<Digest>> = sets
        .iter()
        .map(|set| {
            let mut engine = open(2, Submission::Frame);
            engine.select(set).unwrap();
            run(&mut engine, &pictures.iter().collect::<Vec<_>>())
        })
        .collect();
    let mut before: Option<(Ticket, usize)> = None;
    let mut frames = 0;
    for set in [0, 1, 2, 0] {
        assert_eq!(engine.select("no such set"), Err(RunError::Unknown));
        engine.select(sets[set]).unwrap();
        assert_eq!(engine.task_set(), sets[set]);
        for (i, picture) in pictures.iter().enumerate() {
            // The frame before is still in flight here, under its own plan.
            let ticket = engine.submit(&[Some(av::image(picture))]).unwrap();
            if let Some((ticket, of)) = before.replace((ticket, set)) {
                let (report, digest) = finish(&mut engine, ticket);
                assert_eq!(report.tenants.len(), engine.deployment().plans[report.plan.index()].tenants.len());
                assert_eq!(engine.deployment().plans[report.plan.index()].task_set, sets[of]);
                assert!(report.tenants.iter().all(|t| t.status == Status::Fresh));
                assert_eq!(digest, alone[of][(i + pictures.len() - 1) % pictures.len()], "{}", sets[of]);
                frames += 1;
            }
        }
    }
    let (ticket, of) = before.unwrap();
    assert_eq!(finish(&mut engine, ticket).1, *alone[of].last().unwrap());
    data::ran(test, &format!("{} frames, 3 changes", frames + 1));
}

#[test]
fn frames_without_an_image_or_with_a_bad_one_do_not_stop_the_loop() {
    let test = "frames_without_an_image_or_with_a_bad_one_do_not_stop_the_loop";
    let Some(pictures) = drive(test, 20) else { return };
    let mut engine = open(2, Submission::Frame);
    let ticket = engine.submit(&[None]).unwrap();
    let report = engine.wait(&ticket, None).unwrap();
    assert!(report.tenants.iter().all(|t| t.status == Status::None), "no image has come yet");
    engine.release(ticket).unwrap();

    let good = av::image(&pictures[0]);
    let ticket = engine.submit(&[Some(good)]).unwrap();
    let (report, expected) = finish(&mut engine, ticket);
    assert!(report.tenants.iter().all(|t| t.status == Status::Fresh && !t.old_image));
    let ticket = engine.submit(&[None]).unwrap();
    let (report, repeated) = finish(&mut engine, ticket);
    let old = |t: &TenantReport| t.old_image && t.status == Status::Stale && t.of_frame == 1;
    assert!(report.tenants.iter().all(old), "{report:?}");
    assert_eq!(repeated, expected, "the newest image is seen again");

    let large = vec![0; 1281 * 721 * 3];
    let bad = [
        Image {
            data: &large,
            width: 1281,
            stride: 1281 * 3,
            ..good
        },
        Image {
            data: &large,
            height: 721,
            ..good
        },
        Image { width: 0, ..good },
        Image { height: 0, ..good },
        Image {
            stride: good.width * 3 - 1,
            ..good
        },
        Image { stride: u32::MAX, ..good },
        Image {
            data: &good.data[..good.data.len() - 1],
            ..good
        },
        Image { data: &[], ..good },
        Image {
            width: u32::MAX,
            height: u32::MAX,
            ..good
        },
        Image {
            format: PixelFormat::Nv12,
            height: 719,
            ..good
        },
    ];
    for (i, image) in bad.into_iter().enumerate() {
        let refused = engine.submit(&[Some(image)]);
        assert!(matches!(refused, Err(RunError::Image(CameraId(0), _))), "image {i}: {refused:?}");
    }
    assert_eq!(engine.submit(&[]), Err(RunError::Unknown));
    let ticket = engine.submit(&[Some(good)]).unwrap();
    assert_eq!(ticket.frame(), 3, "a refused frame takes no number");
    let (report, digest) = finish(&mut engine, ticket);
    assert!(report.tenants.iter().all(|t| t.status == Status::Fresh && !t.old_image));
    assert_eq!(digest, expected);
    data::ran(test, "10 bad images, 2 missing ones");
}
