//! The machine itself: processor, cores, memory, and which Jetson it is.

use super::Finding;
use crate::backend::cpu::simd::Isa;
use crate::cli::jetson::Jetson;
use crate::planner::boards;
use crate::runtime::realtime;
use serde_json::json;
use std::path::Path;

pub fn processor() -> Finding {
    let isa = Isa::detect();
    let available: Vec<&str> = Isa::available().map(Isa::name).collect();
    let text = format!(
        "{}, kernels for {} (of {})",
        std::env::consts::ARCH,
        isa.name(),
        available.join(", ")
    );
    let value = json!({ "architecture": std::env::consts::ARCH, "isa": isa.name(), "available": available });
    Finding::new("processor", value, text).advise(
        isa != Isa::Portable,
        "only the portable kernels run here, many times slower: on x86-64 AVX2 with FMA and F16C is needed",
    )
}

pub fn cores() -> Finding {
    let at_hand = realtime::cores();
    let count = at_hand.iter().count();
    let machine = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let machine = machine.trim();
    let text = format!("{count} at hand (numbers {at_hand}; online: {machine})");
    let numbers: Vec<usize> = at_hand.iter().collect();
    let value = json!({ "at_hand": numbers, "online": machine });
    Finding::new("cores", value, text).advise(
        count > 1,
        "with one core at hand, nothing runs side by side: widen the affinity (taskset, cgroup)",
    )
}

pub fn memory() -> Finding {
    let (total, available) = (meminfo("MemTotal"), meminfo("MemAvailable"));
    let shown = |b: Option<u64>| b.map_or("unknown".into(), |b| format!("{} MB", b / 1_000_000));
    let value = json!({ "total_bytes": total, "available_bytes": available });
    Finding::new("memory", value, format!("{}, {} available", shown(total), shown(available)))
}

/// Bytes that the system states under this key; `None` if it does not.
pub fn meminfo(key: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Which Jetson, in which power mode; advice where it is slower than it can be, or its clocks wander.
pub fn jetson(found: &Jetson, folder: &Path) -> Finding {
    let mode = found
        .mode
        .as_ref()
        .map(|m| m.name.clone().unwrap_or_else(|| format!("number {}", m.number)));
    let release = found.release.as_deref().unwrap_or("of unknown release");
    let mut text = format!("{}, Jetson Linux {release}", found.model);
    if let Some(mode) = &mode {
        text += &format!(", power mode {mode}");
    }
    if let Some(clocks) = found.gpu {
        text += &match clocks.are_locked() {
            true => format!(", GPU locked to {} MHz", clocks.most),
            false => format!(", GPU at {} to {} MHz", clocks.least, clocks.most),
        };
    }
    let file = found.board(folder);
    let machine = file.as_ref().and_then(|f| boards::machine(f.to_str()?).ok());
    let fastest = machine.as_ref().and_then(|m| m.modes.first());
    let value = json!({
        "model": found.model,
        "release": found.release,
        "power_mode": found.mode.as_ref().map(|m| json!({ "number": m.number, "name": m.name })),
        "gpu_mhz": found.gpu.map(|c| json!({ "least": c.least, "most": c.most })),
        "board": file.as_ref().and_then(|f| f.file_stem()).map(|n| n.to_string_lossy()),
    });
    let mut advice = Vec::new();
    if let (Some(mode), Some(fastest)) = (&mode, fastest)
        && !mode.eq_ignore_ascii_case(&fastest.name)
    {
        let to = &fastest.name;
        advice.push(format!(
            "plans of its board are for mode {to}: `sudo nvpmodel -m` with the number of {to} (nvpmodel -p --verbose), or plan with --power-mode {mode}"
        ));
    }
    if found.gpu.is_some_and(|c| !c.are_locked()) {
        advice.push("clocks follow the load, which delays frames: `sudo jetson_clocks` locks them at the mode's highest".into());
    }
    if file.is_none() {
        advice.push("no file of the folder boards is for it: describe it as boards/README.md says".into());
    }
    Finding::new("jetson", value, text).advise(advice.is_empty(), advice.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::jetson::{read, tests::orin};

    #[test]
    fn a_slow_mode_and_wandering_clocks_are_told_with_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
        orin(root.path(), 2, 306_000_000, 612_000_000);
        let slow = jetson(&read(root.path()).unwrap(), &boards);
        assert!(slow.text.contains("power mode MODE_30W, GPU at 306 to 612 MHz"), "{}", slow.text);
        let advice = slow.advice.unwrap();
        for part in ["for mode MAXN", "--power-mode MODE_30W", "jetson_clocks"] {
            assert!(advice.contains(part), "{advice}");
        }
        assert_eq!(slow.value["board"], "jetson-agx-orin");
        orin(root.path(), 0, 1_300_500_000, 1_300_500_000);
        let fast = jetson(&read(root.path()).unwrap(), &boards);
        assert!(
            fast.advice.is_none() && fast.text.ends_with("GPU locked to 1300 MHz"),
            "{}",
            fast.text
        );
        assert!(
            jetson(&read(root.path()).unwrap(), root.path())
                .advice
                .unwrap()
                .contains("describe it")
        );
    }
}
