//! Whole networks on whole camera frames: in f16 on the GPU against f32 on the processor.

use crate::av;
use crate::compare;
use crate::data;
use crate::gpu;
use crate::network::Machine;
use crate::road;
use platoon::ids::TenantId;
use platoon::planner::CompileOptions;
use platoon::planner::card::Decode;
use platoon::planner::tasks::Tasks;
use platoon::replay::picture::Picture;
use platoon::runtime::{Crop, Engine, Options, TenantResult, Ticket};
use platoon::task::{ResultKind, Status};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Frames of the real networks: of a drive, and of two other cameras.
const FILES: [&str; 6] = [
    "seq_vehicle/0000.jpg",
    "seq_vehicle/0020.jpg",
    "seq_vehicle/0037.jpg",
    "udacity/advlane_test1.jpg",
    "udacity/advlane_test6.jpg",
    "udacity/lanelines_solidWhiteRight.jpg",
];

#[test]
fn the_repositorys_networks_see_the_same() {
    let test = "gpu_the_repositorys_networks_see_the_same";
    let Some(facts) = gpu::need(test) else { return };
    let said = check(&Machine::gpu(&facts), &road::tasks(), &["urban"], road::pictures());
    data::ran(test, &said);
}

#[test]
fn real_networks_see_the_same() {
    let test = "gpu_real_networks_see_the_same";
    let Some(facts) = gpu::need(test) else { return };
    let Some(root) = data::need(test, &data::av_data()) else { return };
    let pictures: Vec<Picture> = FILES.iter().map(|f| av::picture(&root.join("frames").join(f))).collect();
    let said = check(&Machine::gpu(&facts), &av::tasks(), &["urban", "highway", "parking"], &pictures);
    data::ran(test, &said);
}

/// Runs task sets on both, and compares every tenant's result in every frame. Says how far apart they were.
fn check(machine: &Machine, tasks: &Tasks, sets: &[&str], pictures: &[Picture]) -> String {
    let host = Machine::host(8);
    let single = CompileOptions::default();
    let mut expected = road::open(&host, road::deployment(&host, tasks, sets, 1, &single), &host.options);
    let mut found = road::open(
        machine,
        road::deployment(machine, tasks, sets, 1, &road::half()),
        &Options::default(),
    );
    let mut said: BTreeMap<String, Worst> = BTreeMap::new();
    let mut wrong = String::new();
    for &set in sets {
        expected.select(set).unwrap();
        found.select(set).unwrap();
        for (frame, picture) in pictures.iter().enumerate() {
            let tickets = [&mut found, &mut expected].map(|engine| {
                let ticket = road::submit(engine, picture);
                engine.wait(&ticket, None).unwrap();
                ticket
            });
            for (index, tenant) in tasks.sets[set].tenants.iter().enumerate() {
                let threshold = threshold(&tenant.card.decode);
                let model = found.plan().tenants[index].model.clone();
                let [f, e] =
                    [(&mut found, &tickets[0]), (&mut expected, &tickets[1])].map(|(engine, ticket)| result(engine, ticket, index));
                assert_eq!((f.status, e.status), (Status::Fresh, Status::Fresh));
                let worst = said.entry(model.clone()).or_default();
                if let Err(how) = worst.compare(&f, &e, threshold) {
                    writeln!(wrong, "{set} {model}, picture {frame}: {how}").unwrap();
                }
            }
            let [f, e] = tickets;
            found.release(f).unwrap();
            expected.release(e).unwrap();
        }
    }
    assert_eq!((found.close(), expected.close()), (0, 0));
    assert!(wrong.is_empty(), "\n{wrong}");
    let said: Vec<String> = said.iter().map(|(model, worst)| format!("{model}: {}", worst.told())).collect();
    format!("{} pictures; {}", pictures.len(), said.join("; "))
}

fn result<'a>(engine: &'a mut Engine, ticket: &Ticket, tenant: usize) -> TenantResult<'a> {
    let tenant = TenantId::from_index(tenant).unwrap();
    engine.result(ticket, tenant).unwrap()
}

/// A detector's lowest score; 1 for what is no detector.
fn threshold(decode: &Decode) -> f64 {
    match decode {
        Decode::Yolox { score, .. } => f64::from(*score),
        _ => 1.0,
    }
}

/// The largest deviations of a network.
struct Worst {
    score: f64,
    side: f64,
    overlap: f64,
    /// Objects, maps and classifications compared.
    things: usize,
}

impl Default for Worst {
    fn default() -> Worst {
        Worst {
            score: 0.0,
            side: 0.0,
            overlap: 1.0,
            things: 0,
        }
    }
}

impl Worst {
    fn compare(&mut self, found: &TenantResult<'_>, expected: &TenantResult<'_>, threshold: f64) -> Result<(), String> {
        match found.kind() {
            ResultKind::Detection => {
                let [found, expected] = [found, expected].map(|r| r.detections().collect::<Vec<_>>());
                let [score, side] = compare::detections(&found, &expected, threshold)?;
                (self.score, self.side) = (self.score.max(score), self.side.max(side));
                self.things += expected.len();
            }
            ResultKind::Segmentation => {
                for (found, expected) in found.maps().zip(expected.maps()) {
                    self.overlap = self.overlap.min(compare::map(found.data, expected.data)?);
                    self.things += 1;
                }
            }
            ResultKind::Classification if found.crops().is_some() => self.crops(found, expected)?,
            _ => {
                let [found, expected] = [found, expected].map(|r| r.top(0).collect::<Vec<_>>());
                self.score = self.score.max(compare::best(&found, &expected)?);
                self.things += 1;
            }
        }
        Ok(())
    }

    /// Crops of the same object show the same.
    fn crops(&mut self, found: &TenantResult<'_>, expected: &TenantResult<'_>) -> Result<(), String> {
        let expected_crops: Vec<_> = expected.crops().into_iter().flatten().collect();
        for crop in found.crops().into_iter().flatten() {
            let same = |other: &&Crop| compare::deviation(&crop.detection, &other.detection).is_some();
            let Some(other) = expected_crops.iter().find(same) else { continue };
            let tops = [found.top(crop.image).collect::<Vec<_>>(), expected.top(other.image).collect()];
            self.score = self.score.max(compare::best(&tops[0], &tops[1])?);
            self.things += 1;
        }
        Ok(())
    }

    fn told(&self) -> String {
        let Worst {
            score,
            side,
            overlap,
            things,
        } = self;
        format!("{things} results, scores within {score:.4}, sides within {side:.2}, maps overlap by {overlap:.4}")
    }
}
