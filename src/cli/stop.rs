//! Asks a command to stop: Ctrl-C, and what asks processes to end.
#![allow(unsafe_code)]

use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that ask a process to end.
const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// The exit code of a command that is not waited for, as shells have it for Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Sets `stop` on a signal that asks to end; a second one ends the process at once. Signals that this process was started to
/// ignore (`nohup`, a shell's `&`) stay ignored.
pub fn on_signals(stop: &'static AtomicBool) -> anyhow::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ctrlc::set_handler(|| {
        if stop.swap(true, Ordering::Relaxed) {
            exit(INTERRUPTED);
        }
    })?;
    for signal in SIGNALS.into_iter().filter(|&signal| ignored(&status, signal)) {
        // SAFETY: `signal` is the number of a signal that may be ignored, and `SIG_IGN` a disposition that runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    Ok(())
}

/// True if a process of this `/proc/<pid>/status` ignores the signal.
fn ignored(status: &str, signal: i32) -> bool {
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
        assert!(ignored(&nohup, libc::SIGHUP) && !ignored(&nohup, libc::SIGINT) && !ignored(&nohup, libc::SIGTERM));
        let background = status("0000000000000006");
        assert!(ignored(&background, libc::SIGINT) && !ignored(&background, libc::SIGHUP));
        for nothing in [String::new(), status("0"), status("none")] {
            assert!(SIGNALS.iter().all(|&signal| !ignored(&nothing, signal)));
        }
    }
}
