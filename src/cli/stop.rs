//! Asks a command to stop: Ctrl-C, and what asks processes to end.
#![allow(unsafe_code)]

use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a command that is not waited for, as shells have it for Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Sets `stop` on a signal that asks to end; a second one ends the process at once. A hangup that this process was started to ignore
/// (`nohup`) stays ignored.
pub fn on_signals(stop: &'static AtomicBool) -> anyhow::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ctrlc::set_handler(|| {
        if stop.swap(true, Ordering::Relaxed) {
            exit(INTERRUPTED);
        }
    })?;
    if ignores(&status, libc::SIGHUP) {
        // SAFETY: the number of a signal that may be ignored, and a disposition that runs no code of ours.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
    Ok(())
}

/// True if a process of this `/proc/<pid>/status` ignores the signal.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_a_processes_status() {
        let status = |mask: &str| format!("Name:\tplatoon\nSigBlk:\tffff\nSigIgn:\t{mask}\nSigCgt:\tffff\n");
        let nohup = status("0000000000000001");
        assert!(ignores(&nohup, libc::SIGHUP) && !ignores(&nohup, libc::SIGINT));
        let background = status("0000000000000006");
        assert!(ignores(&background, libc::SIGINT) && !ignores(&background, libc::SIGHUP));
        for nothing in [String::new(), status("0"), status("none")] {
            assert!(!ignores(&nothing, libc::SIGHUP));
        }
    }
}
