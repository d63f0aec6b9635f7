//! `platoon bench --zones`: the sweet zones of a mix, measured and drawn.

use super::output;
use super::zoo::Setting;
use crate::bench::table::rows::Row;
use crate::bench::table::zones;
use crate::planner;
use anyhow::Context;
use indicatif::ProgressBar;
use std::path::Path;

/// Measures and draws the sweet zones of a row.
pub fn run(rows: &[Row], file: &Path, setting: &Setting<'_>) -> anyhow::Result<String> {
    let [row] = rows else {
        return Err(output::wrong_usage("--zones draws one row: name it with one --mix"));
    };
    let bar = ProgressBar::new(setting.frames as u64);
    let told = |done| bar.set_position(done as u64);
    let found = zones::measure(row, setting.board, setting.compile, setting.engine, setting.frames, told);
    bar.finish_and_clear();
    let found = found?.context("its rates do not repeat")?;
    let picture = planner::zones::svg(&format!("{} on {}", row.name, setting.board.name), &found);
    output::write(file, picture)?;
    let mut table = output::Table::new(&["over", "of", "count", "predicted ms", "measured ms"]);
    let curves = std::iter::once(("sync points", &found.pointers)).chain(found.chunks.iter().map(|c| ("chunks", c)));
    for (over, curve) in curves {
        for point in &curve.points {
            table.row([
                over.to_string(),
                curve.name.clone(),
                point.count.to_string(),
                format!("{:.3}", point.predicted.as_ms()),
                point.measured.map_or("-".into(), |m| format!("{:.3}", m.as_ms())),
            ]);
        }
    }
    Ok(format!("{}written to {}", table.render(), file.display()))
}
