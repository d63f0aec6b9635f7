//! `platoon bench --table`: the papers' table.

use super::conditions::{clocks, conditions};
use super::options::Common;
use super::zoo::{Another, Setting};
use super::{gpu, output};
use crate::bench::peers::{Mode, Peer, Way};
use crate::bench::report::Provenance;
use crate::bench::table::contest::{Contest, Others};
use crate::bench::table::mps::{Daemon, Followers, shares};
use crate::bench::table::picture;
use crate::bench::table::report::{Measured, Report, Seconds};
use crate::bench::table::rows::Row;
use crate::bench::table::targets::{Verdict, floor};
use crate::bench::{BenchError, choice};
use crate::board::BackendKind;
use crate::planner::floor::Limits;
use crate::planner::report::RefinedReport;
use crate::planner::tasks::Tasks;
use crate::planner::{CompileOptions, Compiled, Searcher, boards};
use crate::tensor::DType;
use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

#[derive(Args)]
pub struct TableArguments {
    /// Make the papers' table instead, as DIR/table.md, .json and .svg: all searchers, MPS and PyTorch on each mix. --mix names
    /// its rows: networks of the zoo joined by `+`, or task sets [default: all mixes of the papers, and all task sets]
    #[arg(long, value_name = "DIR", group = "networks", conflicts_with_all = ["zoo", "profile", "looped", "json"])]
    pub table: Option<PathBuf>,
    /// Measure the sweet zones of the one row that --mix names instead, and draw them as FILE.svg: frame time over sync points and
    /// over chunks, beside the prediction
    #[arg(long, value_name = "FILE.svg", requires = "mix", conflicts_with_all = ["table", "zoo", "profile", "looped", "json", "peer"])]
    pub zones: Option<PathBuf>,
    /// Leave MPS out of the table
    #[arg(long, requires = "table")]
    no_mps: bool,
    /// Refine each row's plans by measurement for so long before they qualify, as `plan --measure` does; with --zoo each network's
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "networks", conflicts_with_all = ["export", "looped", "rivals"])]
    pub refine: u32,
    /// Run one network when told to on the standard input, as MPS needs it
    #[arg(long, hide = true, requires = "zoo")]
    pub follow: bool,
}

impl TableArguments {
    /// True if the table, or a part of it, is asked for.
    pub fn wanted(&self) -> bool {
        self.table.is_some() || self.zones.is_some()
    }
}

/// A row that is ready to be measured.
struct Ready {
    row: Row,
    compiled: Compiled,
    peer: Option<Peer>,
    mps: Option<Followers>,
    seconds: Seconds,
    /// What could not be had for it.
    left_out: Vec<String>,
}

/// Everything that rows are made ready with.
struct Table<'a> {
    common: &'a Common,
    setting: &'a Setting<'a>,
    options: CompileOptions,
    ways: Vec<Way>,
    another: Option<Another<'a>>,
    daemon: Option<Daemon>,
    limits: Limits,
    /// Plans of each searcher that may qualify.
    most: usize,
}

/// PyTorch, and how it runs networks.
pub struct Peers<'a> {
    pub mode: Mode,
    /// Starts one; `None` if none is wanted.
    pub another: Option<Another<'a>>,
}

/// Rows that are made ready side by side, and processes of the peer's compiler for each of them.
///
/// Each row takes a core for our search, a few gigabytes of memory for the peer, and as many again under MPS.
pub fn abreast() -> (usize, usize) {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let rows = (cores * 3 / 8).max(1);
    (rows, (cores / rows).max(1))
}

/// The rows that were asked for.
pub fn rows(mixes: &[String], tasks: Option<&Tasks>) -> Result<Vec<Row>, BenchError> {
    match mixes {
        [] => Row::all(tasks),
        some => some.iter().map(|text| Row::of(text, tasks)).collect(),
    }
}

/// Measures the rows and writes the table to its folder after each of them: what was written, and the table.
pub fn measure(
    common: &Common,
    arguments: &TableArguments,
    rows: Vec<Row>,
    setting: &Setting<'_>,
    peers: Peers<'_>,
    most: usize,
) -> anyhow::Result<String> {
    let board = setting.board;
    let mut report = Report {
        provenance: Provenance::here(&board.name, setting.workers, None).on(setting.device.clone()),
        conditions: conditions(setting),
        rows: Vec::new(),
        left_out: Vec::new(),
    };
    let daemon = match common.backend(board) == BackendKind::Cuda && !arguments.no_mps {
        true => Daemon::start().map_err(|error| left_out(&mut report.left_out, "MPS", &error)).ok(),
        false => None,
    };
    let table = Table {
        common,
        setting,
        options: CompileOptions {
            searcher: Searcher::Platoon,
            refine: !setting.refine.is_zero(),
            ..setting.compile.clone()
        },
        ways: Way::ALL
            .into_iter()
            .filter(|w| peers.mode == Mode::Inductor || w.mode == peers.mode)
            .collect(),
        another: peers.another,
        daemon,
        most,
        limits: boards::limits(board)?.unwrap_or_else(|| Limits::of_rates(board)),
    };
    let folder = arguments.table.as_deref().unwrap_or(Path::new(""));
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    let (abreast, _) = abreast();
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let some: Vec<Row> = rows.by_ref().take(abreast).collect();
        let names: Vec<String> = some.iter().map(|r| r.name.clone()).collect();
        let bar = ProgressBar::new((setting.frames * some.len()) as u64);
        bar.println(format!("making ready: {}", names.join("; ")));
        for (number, (ready, name)) in table.ready(some).into_iter().zip(names).enumerate() {
            let done = (number * setting.frames) as u64;
            let measured = ready.and_then(|ready| {
                report.left_out.extend(ready.left_out.iter().cloned());
                let peer = ready.peer.as_ref().map(|p| (p.name.to_string(), p.version.clone()));
                report.provenance.peer = report.provenance.peer.take().or(peer);
                table.measure(ready, |n| bar.set_position(done + n as u64))
            });
            match measured {
                Ok(row) => report.rows.push(row),
                Err(error) => left_out(&mut report.left_out, &name, error.as_ref()),
            }
            if report.conditions.clocks.is_empty() {
                report.conditions.clocks = clocks();
            }
            write(folder, &report)?;
        }
        bar.finish_and_clear();
    }
    Ok(format!("{}\nwritten to {}", report.markdown(), folder.display()))
}

impl Table<'_> {
    /// Makes rows ready side by side: that takes long, and nothing is measured meanwhile.
    fn ready(&self, rows: Vec<Row>) -> Vec<anyhow::Result<Ready>> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = rows.into_iter().map(|row| scope.spawn(move || self.ready_row(row))).collect();
            let result = |thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<Ready>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("compiling panicked")))
            };
            threads.into_iter().map(result).collect()
        })
    }

    fn ready_row(&self, row: Row) -> anyhow::Result<Ready> {
        let mut seconds = Seconds::default();
        let mut skipped = Vec::new();
        let (compiled, peer) = std::thread::scope(|scope| {
            let peer = scope.spawn(|| timed(|| self.peer(&row)));
            let compiled = timed(|| row.compile(self.setting.board, &self.options, self.most));
            let peer = peer.join().unwrap_or_else(|_| (Err(anyhow::anyhow!("loading panicked")), 0.0));
            (compiled, peer)
        });
        (seconds.compile, seconds.peer) = (compiled.1, peer.1);
        let compiled = compiled.0?;
        let peer = peer.0.unwrap_or_else(|error| {
            left_out(&mut skipped, &format!("PyTorch on {}", row.name), error.as_ref());
            None
        });
        let (mps, spent) = timed(|| self.followers(&row, &compiled));
        seconds.mps = spent;
        let mps = mps.unwrap_or_else(|error| {
            left_out(&mut skipped, &format!("MPS on {}", row.name), error.as_ref());
            None
        });
        Ok(Ready {
            row,
            compiled,
            peer,
            mps,
            seconds,
            left_out: skipped,
        })
    }

    /// PyTorch with the row's networks; `None` if there is none, or it has not all of them.
    fn peer(&self, row: &Row) -> anyhow::Result<Option<Peer>> {
        let (Some(another), Some(programs)) = (self.another, row.programs()) else {
            return Ok(None);
        };
        let mut peer = another()?;
        peer.load_zoo(&programs, self.setting.activations(), &self.ways, self.setting.workers)?;
        Ok(Some(peer))
    }

    /// A process for each of the row's networks.
    fn followers(&self, row: &Row, compiled: &Compiled) -> anyhow::Result<Option<Followers>> {
        let networks = row.networks();
        let Some(daemon) = self.daemon.as_ref().filter(|_| !networks.is_empty()) else {
            return Ok(None);
        };
        let program = std::env::current_exe().context("this program cannot be found again")?;
        let command = |(name, batch): &(String, u32)| {
            let mut command = Command::new(&program);
            command.args(["bench", "--follow", "--zoo", &format!("{name}:{batch}")]);
            command.args(["--dtype", self.setting.activations()]).args(self.common.again());
            command
        };
        let (units, all) = (self.setting.board.units, gpu::sms()?);
        let shares = shares(&compiled.plan, units, all);
        let followers = daemon.followers(networks.iter().map(command).collect(), &shares)?;
        Ok(Some(followers.within(units, all)?))
    }

    fn measure(&self, mut ready: Ready, progress: impl FnMut(usize)) -> anyhow::Result<Measured> {
        let floor = floor(&ready.compiled.plan, &self.limits);
        let (refined, spent) = timed(|| self.refine(&ready.row, &mut ready.compiled));
        let refined = refined?;
        ready.seconds.refine = spent;
        let begun = Instant::now();
        let mut contest = Contest::open(&ready.row, ready.compiled, self.setting.board, self.setting.engine)?;
        contest.qualify(self.setting.frames)?;
        ready.seconds.qualify = begun.elapsed().as_secs_f64();
        let others = Others {
            peer: ready.peer.as_mut().map(|peer| (peer, &self.ways[..])),
            mps: ready.mps.as_mut(),
        };
        let (entries, spent) = timed(|| contest.turns(others, self.setting.frames, progress));
        ready.seconds.turns = spent;
        contest.close();
        let entries = entries?;
        let verdict = Verdict::of(&ready.row, &entries, floor).context("no plan was measured")?;
        Ok(Measured {
            name: ready.row.name.clone(),
            networks: ready.row.networks(),
            floor,
            entries,
            verdict,
            refined,
            mps_sms: ready.mps.map(|m| m.sms.clone()).unwrap_or_default(),
            seconds: ready.seconds,
        })
    }
}

impl Table<'_> {
    /// Refines a row's plans, if that was asked for: what was tried.
    fn refine(&self, row: &Row, compiled: &mut Compiled) -> anyhow::Result<Option<RefinedReport>> {
        let Setting { board, engine, refine, .. } = self.setting;
        choice::refine(compiled, row.inputs(compiled), board, engine, *refine, |round| {
            log::info!("{}: {}", row.name, round.told())
        })?;
        Ok(compiled.report.refined.clone())
    }
}

/// What an action gives, and the seconds that it takes.
fn timed<T>(action: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let made = action();
    (made, begun.elapsed().as_secs_f64())
}

/// Says aloud, and notes, what is left out.
fn left_out(noted: &mut Vec<String>, what: &str, error: &dyn std::error::Error) {
    let line = format!("{what}: {}", output::chain(error));
    output::complain(&format!("LEFT OUT of the table: {line}"));
    noted.push(line);
}

fn write(folder: &Path, report: &Report) -> anyhow::Result<()> {
    let json = format!("{:#}\n", report.json());
    for (name, text) in [
        ("table.md", report.markdown()),
        ("table.json", json),
        ("table.svg", picture::svg(report)),
    ] {
        output::write(&folder.join(name), text)?;
    }
    Ok(())
}

impl Setting<'_> {
    /// The type of activations by name.
    pub fn activations(&self) -> &'static str {
        if self.compile.dtype == DType::F16 { "f16" } else { "f32" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_mixes_and_task_sets_by_name() {
        let named = rows(&["r50+v16+m3".into(), "bst:1".into()], None).unwrap();
        let names: Vec<&str> = named.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["R50+V16+M3", "bst:1"]);
        assert!(rows(&["urban".into()], None).is_err());
    }
}
