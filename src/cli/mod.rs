//! The command line. One file a command; what a command prints for people it also gives as JSON.
//!
//! Exit codes: 0 done; 1 the input or the result is bad, with one line on stderr that chains the causes; 2 wrong usage.
//! Results go to stdout, progress and logs to stderr.

mod bench;
mod compile;
mod conditions;
mod dataset;
mod doctor;
mod follow;
mod gpu;
mod infer;
mod inspect;
mod jetson;
mod kernels;
mod looped;
mod npy;
mod options;
mod output;
mod paces;
mod plan;
mod profile;
mod replay;
mod scenes;
mod stop;
mod table;
mod verify;
mod what_if;
mod zones;
mod zoo;

use clap::{Parser, Subcommand};
use options::Common;
use std::process::ExitCode;

/// Runs several neural networks in formation, once per camera frame, from plans made ahead of time.
#[derive(Parser)]
#[command(name = "platoon", version, max_term_width = 110, after_help = FIRST_STEPS)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

const FIRST_STEPS: &str = "\
First steps:
  platoon doctor                                  what this machine has, and what is missing
  platoon replay --input frames/ --out out/ --overlay
                                                  compile what plans/tasks.toml asks for, run it over
                                                  a folder of pictures, write results and overlays
  platoon infer --model net.onnx --input x.npy --out out/
                                                  run any network on tensors

Exit codes: 0 done; 1 bad input or result (one line on stderr says why); 2 wrong usage.
Logs: set RUST_LOG=info or RUST_LOG=debug.";

#[derive(Subcommand)]
enum Command {
    /// Compile task sets: ONNX networks in, plans and weights for a board out
    Plan(plan::Arguments),
    /// Show what a plan file holds
    Inspect(inspect::Arguments),
    /// Check a plan file, its weights and its table, and a GPU against the processor
    Verify(verify::Arguments),
    /// Run a task set over recorded pictures or a synthetic drive
    Replay(replay::Arguments),
    /// Write frames of a synthetic drive with their ground truth
    Scenes(scenes::Arguments),
    /// Run one network on tensors from files
    Infer(infer::Arguments),
    /// Compare task sets or networks of the zoo with another runtime in the same run, or profile operators
    Bench(bench::Arguments),
    /// Time the tactics of operators on a board's GPU, for plans to choose by
    Profile(profile::Arguments),
    /// Compile the GPU kernels for architectures of boards
    Kernels(kernels::Arguments),
    /// Say what this machine has, and what to do about what it lacks
    Doctor(doctor::Arguments),
}

/// How a command ended that ran to its end.
enum Outcome {
    /// All is well.
    Good,
    /// The result is bad; what is wrong has been said.
    Bad,
}

/// Runs the command that the process's arguments name.
pub fn main() -> ExitCode {
    // Clap ends the process by itself: 0 for help and version, 2 for wrong usage.
    let Arguments { common, command } = Arguments::parse();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let outcome = match command {
        Command::Plan(arguments) => plan::run(&common, &arguments),
        Command::Inspect(arguments) => inspect::run(&common, &arguments),
        Command::Verify(arguments) => verify::run(&common, &arguments),
        Command::Replay(arguments) => replay::run(&common, &arguments),
        Command::Scenes(arguments) => scenes::run(&common, &arguments),
        Command::Infer(arguments) => infer::run(&common, &arguments),
        Command::Bench(arguments) => bench::run(&common, &arguments),
        Command::Profile(arguments) => profile::run(&common, &arguments),
        Command::Kernels(arguments) => kernels::run(&common, &arguments),
        Command::Doctor(arguments) => doctor::run(&common, &arguments),
    };
    match outcome {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Bad) => ExitCode::from(1),
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(usage) = error.downcast_ref::<clap::Error>() {
                usage.exit();
            }
            output::complain(&output::chain(error.as_ref()));
            ExitCode::from(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_well_formed_and_every_command_teaches_by_example() {
        let command = Arguments::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            let help = sub.clone().render_long_help().to_string();
            assert!(help.contains("Example"), "{} has no example", sub.get_name());
        }
    }
}
