//! `platoon inspect`: what a plan file holds.

use super::options::Common;
use super::{Outcome, compile, output};
use crate::board::{BackendKind, BoardRecord};
use crate::plan::check::check;
use crate::plan::deployment::Deployment;
use crate::plan::dump::dump;
use crate::plan::file::decode;
use crate::plan::footprint::Footprint;
use crate::plan::format::{Basis, Digest, Operator, Plan};
use crate::plan::regular;
use crate::plan::table::Entry;
use crate::planner::floor::Limits;
use crate::planner::simulate::{Costs, Machine};
use crate::planner::{boards, picture, zones};
use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  platoon inspect plans/host/urban.plan           operators, buffers, streams and schedule as text
  platoon inspect plans/host/urban.plan --json    the figures that programs ask for, with each network's
                                                  shortest possible time on its board
  platoon inspect plans/host/urban.plan --svg urban.svg
                                                  its frames as a picture: streams, segments, chunks,
                                                  sync points and idle units, as the simulator sees them
  platoon inspect plans/host/urban.plan --zones zones.svg
                                                  how its predicted frame changes with the number of sync
                                                  points, and with the chunks of operators

The file need not be sound: it is shown as it is. `platoon verify` says whether it holds.")]
pub struct Arguments {
    /// The plan file
    #[arg(value_name = "FILE.plan")]
    file: PathBuf,
    /// Print a summary as JSON instead
    #[arg(long)]
    json: bool,
    /// Draw the timeline of its frames instead; the plan must be sound and its board known
    #[arg(long, value_name = "FILE.svg", conflicts_with = "json")]
    svg: Option<PathBuf>,
    /// Draw the sweet zones of its networks instead: frame time over sync points, and over chunks
    #[arg(long, value_name = "FILE.svg", conflicts_with_all = ["json", "svg"])]
    zones: Option<PathBuf>,
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let plan = read_plan(&arguments.file)?;
    let drawn = arguments.svg.as_ref().map(|file| (file, draw as Draw));
    if let Some((file, draw)) = drawn.or(arguments.zones.as_ref().map(|file| (file, draw_zones as Draw))) {
        output::spares(file, [arguments.file.as_path()])?;
        let picture = draw(common, plan).with_context(|| arguments.file.display().to_string())?;
        output::write(file, picture)?;
        output::print(&format!("written to {}", file.display()))?;
        return Ok(Outcome::Good);
    }
    let (resident, of) = resident(&arguments.file, &plan, common);
    if arguments.json {
        let limits = board_of(common, &plan).ok().map(|board| {
            let measured = boards::limits(&board).ok().flatten();
            measured.unwrap_or_else(|| Limits::of_rates(&board))
        });
        let mut figures = summary(&plan, limits);
        figures["resident"] = json!({
            "of": of,
            "host_bytes": resident.host_bytes(),
            "device_bytes": resident.device_bytes(),
            "host": resident.host.iter().map(|(what, bytes)| (what.to_string(), json!(bytes))).collect::<serde_json::Map<_, _>>(),
            "device": resident.device.iter().map(|(what, bytes)| (what.to_string(), json!(bytes))).collect::<serde_json::Map<_, _>>(),
        });
        output::print(&format!("{figures:#}"))?;
    } else {
        output::print(&dump(&plan))?;
        output::print(&told(&resident, &of))?;
    }
    Ok(Outcome::Good)
}

/// The memory of an engine once it is open, and what it is of: of all plans of the table beside the file, if the plan is one of
/// them, else of the plan alone with two slots.
fn resident(file: &Path, plan: &Plan, common: &Common) -> (Footprint, String) {
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = Deployment::load(folder).ok();
    let beside = beside.filter(|d| d.plans.iter().any(|p| Entry::of(p).digest == Entry::of(plan).digest));
    match beside {
        Some(deployment) => {
            let plans: Vec<&Plan> = deployment.plans.iter().map(|p| &**p).collect();
            let slots = deployment.table.slots;
            let of = format!("all {} plans of its table with {slots} slots", plans.len());
            (Footprint::of(&plans, slots, common.backend_or(deployment.table.backend)), of)
        }
        None => {
            let own = if plan.kernels.is_some() {
                BackendKind::Cuda
            } else {
                BackendKind::Cpu
            };
            (
                Footprint::of(&[plan], ALONE, common.backend_or(own)),
                format!("this plan alone with {ALONE} slots"),
            )
        }
    }
}

/// Slots of a plan that is in no table.
const ALONE: u16 = 2;

fn told(resident: &Footprint, of: &str) -> String {
    let part = |(what, bytes): &(&str, u64)| format!("{what} {}", output::megabytes(*bytes));
    let line = |total: u64, parts: &[(&str, u64)]| {
        let parts: Vec<String> = parts.iter().map(part).collect();
        format!("{} MB ({})", output::megabytes(total), parts.join(", "))
    };
    let mut text = format!("resident once open, {of}: {}", line(resident.host_bytes(), &resident.host));
    if !resident.device.is_empty() {
        text += &format!("; on the GPU {}", line(resident.device_bytes(), &resident.device));
    }
    text
}

/// Makes a picture of a plan, which is checked before it is simulated.
type Draw = fn(&Common, Plan) -> anyhow::Result<String>;

/// The timeline of a plan.
fn draw(common: &Common, plan: Plan) -> anyhow::Result<String> {
    let plan = check(plan).context("the plan is not sound")?.into_inner();
    let board = board_of(common, &plan)?;
    let times = compile::measured(&board)?;
    let measured = |o: &Operator| times.as_ref()?.of(&plan, o);
    let machine = Machine::of(&board).calibrated(compile::calibration(&board)?);
    Ok(picture::svg(&plan, &Costs::on(machine, &plan.operators, &board, &measured)))
}

/// The sweet zones of a plan's networks.
fn draw_zones(common: &Common, plan: Plan) -> anyhow::Result<String> {
    let plan = check(plan).context("the plan is not sound")?.into_inner();
    let board = board_of(common, &plan)?;
    let times = compile::measured(&board)?;
    let measured = |o: &Operator| times.as_ref()?.of(&plan, o);
    let zones = zones::of_plan(&plan, &board, compile::calibration(&board)?, &measured).context("its rates do not repeat")?;
    Ok(zones::svg(&format!("{} on {}", plan.task_set, board.name), &zones))
}

/// The board that a plan was made for: the one that is named, else whichever of the folder `boards` it is.
fn board_of(common: &Common, plan: &Plan) -> anyhow::Result<BoardRecord> {
    let named = common.board()?;
    if common.names_board() && Digest::of_board(&named) != plan.board {
        anyhow::bail!(
            "the plan was made for another board than {}: leave --board out, or name its own",
            named.name
        );
    }
    let all = boards::all(Path::new("boards")).into_iter().filter_map(|(_, board)| board.ok());
    let found = std::iter::once(named).chain(all).find(|b| Digest::of_board(b) == plan.board);
    found.context("the plan was made for another board: name its board with --board")
}

/// Reads and decodes a plan file; nothing in it is checked yet.
pub fn read_plan(file: &Path) -> anyhow::Result<Plan> {
    let bytes = read_bounded(file, crate::limits::MAX_PLAN_FILE)?;
    decode(&bytes).with_context(|| file.display().to_string())
}

/// The bytes of a file, refused before they are read where it is longer than `most` bytes.
pub fn read_bounded(file: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    regular::read(file, most).with_context(|| format!("{}: cannot be read", file.display()))
}

/// The figures of a plan; `limits` are those of its board, which floors are worked out with.
fn summary(plan: &Plan, limits: Option<Limits>) -> Value {
    let tenants: Vec<Value> = plan
        .tenants
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let own = || plan.operators.iter().filter(|o| o.tenant.index() == i);
            let operators = own().count();
            let floor = limits.map(|l| own().map(|o| l.floor(o).total()).sum::<f64>() / 1e6);
            let cameras: Vec<&str> = t.cameras.iter().filter_map(|c| Some(plan.cameras.get(c.index())?.name.as_str())).collect();
            let ports = |ports: &[crate::plan::format::Port]| -> Vec<Value> {
                let port = |p: &crate::plan::format::Port| json!({ "name": p.name, "shape": p.view.layout.shape.dims(), "dtype": p.view.dtype.name() });
                ports.iter().map(port).collect()
            };
            json!({
                "name": t.name,
                "model": t.model,
                "kind": t.kind.name(),
                "cameras": cameras,
                "rate": { "divisor": t.rate.divisor, "phase": t.rate.phase },
                "priority": t.urgency.priority,
                "deadline_ms": t.urgency.deadline.map(|d| d.as_ms()),
                "operators": operators,
                "floor_ms": floor,
                "inputs": ports(&t.inputs),
                "outputs": ports(&t.outputs),
            })
        })
        .collect();
    let frames: Vec<Value> = plan
        .cycle
        .iter()
        .zip(plan.prediction.frames.iter())
        .map(|(schedule, predicted)| {
            json!({
                "tenants": schedule.tenants.iter().filter_map(|t| Some(plan.tenants.get(t.index())?.name.as_str())).collect::<Vec<_>>(),
                "segments": schedule.segments.len(),
                "syncs": schedule.syncs.len(),
                "predicted_ms": predicted.total.as_ms(),
            })
        })
        .collect();
    json!({
        "task_set": plan.task_set,
        "digest": Entry::of(plan).digest.to_string(),
        "board": plan.board.to_string(),
        "source": plan.source.to_string(),
        "kernels": plan.kernels.map(|k| k.to_string()),
        "searcher": plan.searcher,
        "sound": check(plan.clone()).map_or_else(|e| json!(e.to_string()), |_| json!(true)),
        "operators": plan.operators.len(),
        "streams": plan.streams.len(),
        "arena_bytes": plan.arena_bytes,
        "persistent_bytes": plan.persistent_bytes,
        "input_bytes": plan.input_bytes,
        "output_bytes": plan.output_bytes,
        "weights": plan.weight_files.iter().map(|w| json!({ "digest": digest(&w.digest), "bytes": w.bytes })).collect::<Vec<_>>(),
        "tenants": tenants,
        "prediction": match plan.prediction.basis { Basis::Estimated => "estimated", Basis::Measured => "measured" },
        "best_effort": plan.prediction.best_effort,
        "cycle": frames,
    })
}

fn digest(digest: &Digest) -> String {
    digest.to_string()
}
