//! Operands whose values decide how much work an operator does, as frames of a street have them. Noise would not do: nearly
//! every score of it is a candidate, and every count is 0.

use super::noise::Noise;
use crate::ids::OperatorId;
use crate::plan::format::{Camera, Operand, Plan, View};
use crate::planner::isolate::Isolated;
use crate::primitive::{Crop, Nms, Primitive};
use bytemuck::cast_slice;

/// Boxes of which one is a candidate, in one class: some fifty of a small detector's three and a half thousand. Streets of
/// the recorded frames have 10 to 90.
const BOXES_A_CANDIDATE: u32 = 64;

/// Data of the inputs of an isolated plan that hold such operands: number of the input, bytes.
///
/// `Nms` gets scores of which as many boxes as on a street reach the lowest that is kept; `Crop` gets as many detections
/// as it has rows, all of a class that it cuts out.
pub fn operands(plan: &Plan, isolated: &Isolated) -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    for ends in &isolated.operators {
        let input = |view: View| ends.inputs.iter().find(|(_, read)| *read == view).map(|(input, _)| *input);
        let operands = loads(plan, ends.operator).into_iter();
        all.extend(operands.filter_map(|(view, bytes)| Some((input(view)?, bytes))));
    }
    all
}

/// The views of an operator that hold such operands, with their bytes in C order.
fn loads(plan: &Plan, operator: OperatorId) -> Vec<(View, Vec<u8>)> {
    let Some(operator) = plan.operators.get(operator.index()) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for call in &operator.calls {
        match (call.primitive, &call.inputs[..]) {
            (Primitive::Nms(nms), [_, Operand::View(scores)]) => all.push((*scores, candidates(&nms, scores))),
            (Primitive::Crop(crop), [_, Operand::View(rows), Operand::View(count)]) => {
                let seen = rows.layout.shape.dim(0);
                let camera = &plan.cameras[crop.camera.index()];
                all.push((*rows, detections(&crop, camera, seen)));
                all.push((*count, seen.to_ne_bytes().to_vec()));
            }
            _ => {}
        }
    }
    all
}

/// Scores `[A, C]`.
fn candidates(nms: &Nms, scores: &View) -> Vec<u8> {
    let (boxes, classes) = (scores.layout.shape.dim(0), scores.layout.shape.dim(1));
    let mut noise = Noise::new(u64::from(boxes) << 32 | u64::from(classes));
    let lowest = nms.score.0;
    let mut all = Vec::new();
    for _ in 0..boxes {
        let candidate = (noise.below(BOXES_A_CANDIDATE) == 0).then(|| noise.below(classes));
        all.extend((0..classes).map(|class| match candidate == Some(class) {
            true => lowest + noise.unit(),
            false => lowest - 0.01 - noise.unit(),
        }));
    }
    cast_slice(&all).to_vec()
}

/// Detections `[R, 6]`: boxes of up to a fourth of the camera's largest picture.
fn detections(crop: &Crop, camera: &Camera, rows: u32) -> Vec<u8> {
    let mut noise = Noise::new(u64::from(rows));
    let (width, height) = (camera.max_width as f32, camera.max_height as f32);
    let class = crop.classes.trailing_zeros() as f32;
    let mut all = Vec::new();
    for _ in 0..rows {
        let (x, y) = (width * noise.between(0.0, 0.75), height * noise.between(0.0, 0.75));
        let (w, h) = (width * noise.between(0.01, 0.25), height * noise.between(0.01, 0.25));
        all.extend([x, y, x + w, y + h, noise.unit(), class]);
    }
    cast_slice(&all).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::agree::alone;
    use crate::bench::inputs::{self, Picture};
    use crate::board::BackendKind;
    use crate::ids::{CameraId, TenantId};
    use crate::planner::isolate::{Trial, isolate};
    use crate::planner::tasks::Tasks;
    use crate::planner::{CompileOptions, boards, compile_task_set};
    use crate::runtime::{Engine, Options};
    use std::path::Path;

    #[test]
    fn suppression_and_crops_have_as_much_to_do_as_on_a_street() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let board = boards::load(concat!(env!("CARGO_MANIFEST_DIR"), "/boards/jetson-agx-orin.toml")).unwrap();
        let tasks = Tasks::load(&root.join("plans/tasks.toml")).unwrap();
        let options = CompileOptions {
            best_effort: true,
            ..CompileOptions::default()
        };
        let compiled = compile_task_set(&tasks, "urban", &board, &options).unwrap();
        let plan = compiled.plan.clone();
        let made_by = |wanted: fn(&Primitive) -> bool| {
            let found = plan.operators.iter().position(|o| o.calls.iter().any(|c| wanted(&c.primitive)));
            OperatorId(found.unwrap() as u32)
        };
        let trial = |operator: OperatorId| Trial {
            operator,
            tactics: vec![plan.operators[operator.index()].tactic],
            repeats: 1,
            rounds: 1,
            chunks: Vec::new(),
        };
        let trials = [
            made_by(|p| matches!(p, Primitive::Nms(_))),
            made_by(|p| matches!(p, Primitive::Crop(_))),
        ]
        .map(trial);
        let isolated = isolate(&plan, &trials, &board).unwrap();
        let loads = operands(&plan, &isolated);
        assert_eq!(loads.len(), 3, "scores, detections and their number");

        let deployment = crate::bench::ours::deployment(vec![compiled], &board).unwrap();
        let run = Options {
            backend: Some(BackendKind::Cpu),
            workers: Some(1),
            ..Options::default()
        };
        let mut engine = Engine::with(alone(&deployment, &plan, &isolated, &board).unwrap(), &run).unwrap();
        let mut draft = engine.begin().unwrap();
        for (camera, picture) in isolated.plan.cameras.iter().map(Picture::of).enumerate() {
            draft.copy_image(CameraId(camera as u16), &picture.image()).unwrap();
        }
        for (_, port, noise) in inputs::tensors(&isolated.plan, &[(0.0, 1.0)]) {
            let load = loads.iter().find(|(input, _)| *input == port).map_or(&noise, |(_, bytes)| bytes);
            draft.copy_input(TenantId(0), port, load).unwrap();
        }
        let ticket = draft.submit().unwrap();
        engine.wait(&ticket, None).unwrap();
        let results: Vec<Vec<u8>> = engine
            .result(&ticket, TenantId(0))
            .unwrap()
            .tensors()
            .map(|(_, b)| b.to_vec())
            .collect();
        let output =
            |of: usize, index: usize| -> Vec<i32> { bytemuck::pod_collect_to_vec(&results[isolated.operators[of].outputs[index].0]) };
        let boxes = output(0, 1)[0];
        assert!((10..=90).contains(&boxes), "{boxes} boxes");
        assert!(output(1, 1).iter().all(|&row| row >= 0), "every crop shows something");
        engine.release(ticket).unwrap();
        engine.close();
    }
}
