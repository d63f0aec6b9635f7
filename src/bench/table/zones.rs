//! Sweet zones measured: the plans behind the points of the plots, in turns on one engine.

use super::rows::Row;
use crate::bench::BenchError;
use crate::bench::measure::{TURN, WARM};
use crate::bench::stage::Side;
use crate::board::BoardRecord;
use crate::plan::format::Operator;
use crate::planner::search::Zones;
use crate::planner::{CompileOptions, zones};
use crate::runtime::Options;
use crate::units::Nanos;

/// The sweet zones of a row's networks on a board, with `frames` counted frames of each point; `None` where rates do not repeat.
/// `progress` gets the number of frames done of each.
pub fn measure(
    row: &Row,
    board: &BoardRecord,
    compile: &CompileOptions,
    engine: &Options,
    frames: usize,
    mut progress: impl FnMut(usize),
) -> Result<Option<Zones>, BenchError> {
    let mut compiled = row.compile(board, compile, 0)?;
    let plan = compiled.plan.clone();
    let measured = |o: &Operator| compile.times.as_ref()?.of(&plan, o);
    let Some(mut found) = zones::of_plan(&plan, board, compile.calibration, &measured) else {
        return Ok(None);
    };
    compiled.rivals = zones::plans(&plan, &found, board, compile.calibration, &measured).map_err(|error| BenchError::Plan {
        name: row.name.clone(),
        error: Box::new(error),
    })?;
    let mut sides = vec![Side::default(); compiled.rivals.len()];
    let mut stage = row.open(compiled, board, engine)?;
    let mut done = 0;
    while done < frames {
        for (index, side) in sides.iter_mut().enumerate() {
            // The first plan is the one that the points' are made from.
            stage.select(index + 1)?;
            side.add(stage.run(WARM, TURN)?);
        }
        done += TURN;
        progress(done.min(frames));
    }
    stage.close();
    let medians: Vec<Nanos> = sides.iter().map(|s| s.device().median()).collect();
    zones::points(&mut found)
        .zip(medians)
        .for_each(|(point, median)| point.measured = Some(median));
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::boards;

    #[test]
    fn every_point_is_measured() {
        let row = Row::of("bst:1+bst:2", None).unwrap();
        let board = boards::load("host").unwrap();
        let engine = Options {
            workers: Some(1),
            ..Options::default()
        };
        let mut heard = 0;
        let found = measure(&row, &board, &CompileOptions::default(), &engine, 2, |done| heard = done).unwrap();
        let mut found = found.unwrap();
        assert_eq!(heard, 2);
        assert!(found.pointers.points.len() > 5 && found.chunks.len() == 2);
        assert!(zones::points(&mut found).all(|p| p.measured.is_some_and(|m| m.0 > 0)));
    }
}
