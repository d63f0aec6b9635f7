//! After the engine is open, nothing allocates: counted by the allocator itself, on every thread.

#[cfg(all(feature = "planner", feature = "replay"))]
#[path = "common/av.rs"]
mod av;
mod common;
#[cfg(feature = "planner")]
#[path = "common/crops.rs"]
mod crops;
#[cfg(all(feature = "planner", feature = "replay"))]
#[allow(dead_code)] // other binaries use other parts
#[path = "common/data.rs"]
mod data;

#[path = "common/meter.rs"]
mod meter;
#[cfg(feature = "planner")]
#[allow(dead_code)] // other binaries use other parts
#[path = "common/onnx.rs"]
mod onnx;

use common::build::{Decisions, Feed, Layer, Net, PIXELS, deploy, plan};
use common::{engine, gray, pixels};
use meter::allocations;
use platoon::ids::{CameraId, TenantId};
use platoon::runtime::realtime::Realtime;
use platoon::runtime::{Engine, Options};
use platoon::task::{Rate, Status};

const FRAMES: u64 = 10_000;

/// One test, because whatever another one did at the same time would be counted too.
#[test]
fn ten_thousand_frames_of_three_tenants_and_some_of_planned_networks_take_no_memory() {
    three_tenants();
    #[cfg(feature = "planner")]
    crops_of_detections();
    #[cfg(all(feature = "planner", feature = "replay"))]
    urban();

    let calls = allocations(|| {
        drop(std::hint::black_box(vec![0u8; 100]));
    });
    assert!(calls > 0, "the counter counts");
}

/// Hand-built plans on the plain test kernels and on the real ones, with switches in between.
fn three_tenants() {
    let net = |name, feed, rate, layers: &[Layer]| Net {
        name,
        feed,
        rate,
        layers: layers.to_vec(),
    };
    let half = Rate { divisor: 2, phase: 1 };
    let urban = [
        net("scout", Feed::Camera(0), Rate::EVERY_FRAME, &[Layer::Max3, Layer::Remember]),
        net("surface", Feed::Camera(1), half, &[Layer::Leak(0.5)]),
        net("signal", Feed::Net(0), half, &[Layer::Skip]),
    ];
    let highway = [
        net("scout", Feed::Camera(1), Rate::EVERY_FRAME, &[Layer::Max3]),
        net("probe", Feed::Input, half, &[Layer::Leak(0.1)]),
        net("signal", Feed::Camera(0), Rate::EVERY_FRAME, &[Layer::Max3, Layer::Max3]),
    ];
    let decisions = Decisions {
        streams: 3,
        chunks: |_| 2,
        width: |n| n as u16 % 3,
        segment: 2,
        stream: |net, _| net,
    };
    let plans = vec![plan("urban", 2, &urban, &decisions), plan("highway", 2, &highway, &decisions)];
    let options = Options {
        workers: Some(2),
        trace: 256,
        realtime: Realtime {
            pin: false,
            ..Realtime::default()
        },
        ..Options::default()
    };
    frames(engine(deploy(2, plans.clone()), &options));
    frames(Engine::with(deploy(2, plans), &options).unwrap_or_else(|e| panic!("{e:?}")));
}

/// Detections, and crops of them in every other frame, planned from files; some frames come without a picture.
#[cfg(feature = "planner")]
fn crops_of_detections() {
    use platoon::planner::{CompileOptions, boards, compile_task_set, table, tasks::Tasks};

    let folder = tempfile::tempdir().unwrap();
    crops::write(folder.path(), 2);
    let tasks = Tasks::load(&folder.path().join("tasks.toml")).unwrap_or_else(|e| panic!("{e}"));
    let board = boards::load("host").unwrap();
    let compiled = compile_task_set(&tasks, "day", &board, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let table = table(std::slice::from_ref(&compiled), &board, "day", 2).unwrap();
    let weights = compiled.weight_files.into_iter().map(|(_, bytes)| bytes).collect();
    let deployment = platoon::plan::deployment::Deployment::assemble(table, vec![compiled.plan], weights).unwrap();
    let mut engine = Engine::with(deployment, &Options::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let pixels: Vec<u8> = (0..64 * 48 * 3).map(|i: u32| (i * 7) as u8).collect();
    let image = platoon::runtime::Image {
        data: &pixels,
        width: 64,
        height: 48,
        stride: 64 * 3,
        format: platoon::task::PixelFormat::Rgb8,
    };
    let mut crops = 0;

    let calls = allocations(|| {
        for frame in 0..500 {
            let ticket = engine.submit(&[(frame % 9 != 8).then_some(image)]).unwrap();
            engine.wait(&ticket, None).unwrap();
            let result = engine.result(&ticket, TenantId(1)).unwrap();
            crops += result
                .crops()
                .map_or(0, |crops| crops.filter(|c| result.top(c.image).count() == 1).count());
            engine.release(ticket).unwrap();
        }
    });

    assert_eq!(calls, 0, "the loop called the allocator");
    assert_eq!(crops, 2 * 500);
}

/// Real networks on real frames: 20 of `urban`, and between them some of the other task sets.
#[cfg(all(feature = "planner", feature = "replay"))]
fn urban() {
    let Some(root) = data::need("urban_takes_no_memory", &data::av_data()) else {
        return;
    };
    let files = [
        "seq_vehicle/0000.jpg",
        "udacity/lanelines_solidWhiteRight.jpg",
        "udacity/advlane_test1.jpg",
    ];
    let pictures = files.map(|f| av::picture(&root.join("frames").join(f)));
    let mut engine = Engine::open(&av::deployment("alloc"), &Options::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let (mut bytes, mut things) = (0, 0);

    let calls = allocations(|| {
        let mut ahead = None;
        let sets = [("urban", 10), ("highway", 2), ("parking", 2), ("urban", 10)];
        for (frame, set) in sets.iter().flat_map(|&(set, frames)| std::iter::repeat_n(set, frames)).enumerate() {
            engine.select(set).unwrap();
            // Every seventh frame comes without an image.
            let image = (frame % 7 != 6).then(|| av::image(&pictures[frame % 3]));
            let ticket = engine.submit(&[image]).unwrap();
            let Some(before) = ahead.replace(ticket) else { continue };
            let report = engine.wait(&before, None).unwrap();
            let seen = if report.frame % 7 != 6 { Status::Fresh } else { Status::Stale };
            for tenant in &report.tenants {
                assert_eq!(tenant.status, seen);
                let result = engine.result(&before, tenant.tenant).unwrap();
                bytes += result.tensors().map(|(_, b)| b.len()).sum::<usize>();
                things += result.detections().count() + result.top(0).count() + result.maps().count();
            }
            engine.release(before).unwrap();
        }
    });

    assert_eq!(calls, 0, "the loop called the allocator");
    assert!(bytes > 0 && things > 0);
    data::ran("urban_takes_no_memory", "20 frames, and 4 of the other task sets");
}

/// The loop, counted.
fn frames(mut engine: Engine) {
    let images: Vec<[Vec<u8>; 2]> = (0..4).map(|f| [pixels(0, f), pixels(1, f)]).collect();
    let values = vec![0; PIXELS * 4];
    let (mut fresh, mut bytes) = (0u64, 0usize);

    let calls = allocations(|| {
        let mut ahead = None;
        for frame in 0..FRAMES {
            if frame % 250 == 0 {
                engine.select(if frame % 500 == 0 { "urban" } else { "highway" }).unwrap();
            }
            let [a, b] = &images[frame as usize % 4];
            let ticket = if frame % 3 == 0 {
                let second = (frame % 7 != 1).then(|| gray(b));
                engine.submit(&[Some(gray(a)), second]).unwrap()
            } else {
                let probe = engine.task_set() == "highway";
                let mut draft = engine.begin().unwrap();
                draft.image_mut(CameraId(0)).unwrap().copy_from_slice(a);
                draft.copy_image(CameraId(0), &gray(a)).unwrap();
                if frame % 5 != 0 {
                    draft.copy_image(CameraId(1), &gray(b)).unwrap();
                }
                if probe {
                    draft.copy_input(TenantId(1), 0, &values).unwrap();
                }
                draft.submit().unwrap()
            };
            // One frame stays in flight while the one before is read.
            let Some(before) = ahead.replace(ticket) else { continue };
            engine.wait_tenant(&before, TenantId(0), None).unwrap();
            let report = engine.wait(&before, None).unwrap();
            fresh += report.tenants.iter().filter(|t| t.status == Status::Fresh).count() as u64;
            for tenant in 0..3 {
                let result = engine.result(&before, TenantId(tenant)).unwrap();
                bytes += result.tensors().map(|(_, b)| b.len()).sum::<usize>();
            }
            engine.release(before).unwrap();
        }
        if let Some(last) = ahead {
            engine.wait(&last, None).unwrap();
            engine.release(last).unwrap();
        }
    });

    assert_eq!(calls, 0, "the loop called the allocator");
    // The loop did its work: the scout is fresh in every frame, and every plan had its turns.
    assert!(fresh > FRAMES && bytes > 0);
    let counted: u64 = (0..2).map(|p| engine.stats(platoon::ids::PlanId(p)).unwrap().frame.count()).sum();
    assert_eq!(counted, FRAMES);
}
