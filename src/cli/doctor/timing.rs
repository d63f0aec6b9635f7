//! What punctual frames ask of the system, each tried as `--fifo`, `--cores`, `--lock-memory` would ask it.

use super::Finding;
use crate::runtime::cores::Cores;
use crate::runtime::realtime;
use serde_json::json;

/// The priority that is tried: any is as good.
const PRIORITY: u8 = 50;

/// Everything that was looked at.
pub fn all() -> Vec<Finding> {
    vec![locking(), scheduling(), affinity(), kernel()]
}

/// The soft limit called `name` of this process; `None` for unlimited or unknown, told apart by the text.
fn limit(name: &str) -> (String, Option<u64>) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|l| l.strip_prefix(name));
    let soft = line.and_then(|l| l.split_whitespace().next()).unwrap_or("unknown");
    (soft.to_owned(), soft.parse().ok())
}

/// What happens in a thread that ends at once, so that nothing of it stays.
fn tried<T: Send>(attempt: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| scope.spawn(attempt).join().ok())
}

fn cause(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

fn locking() -> Finding {
    /// What a deployment of several networks takes, roughly.
    const ENOUGH: u64 = 1 << 30;
    let (text, bytes) = limit("Max locked memory");
    let shown = bytes.map_or(text.clone(), |b| format!("{b} bytes"));
    // What this process has now is locked and let go again.
    let refused = realtime::lock_memory().err();
    realtime::unlock_memory();
    let value = json!({ "limit": text, "refused": refused.map(cause) });
    let granted = refused.is_none() && (text == "unlimited" || bytes.is_none_or(|b| b >= ENOUGH) || is_privileged());
    let said = refused.map_or_else(String::new, |e| format!("; mlockall is refused: {}", cause(e)));
    Finding::new("mlock", value, format!("up to {shown} may be locked{said}")).advise(
        granted,
        "page faults can delay frames (--lock-memory): raise it with `ulimit -l unlimited` or LimitMEMLOCK=infinity",
    )
}

/// True for root, whom the limits do not bind.
fn is_privileged() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    const CAP_IPC_LOCK: u64 = 1 << 14;
    effective
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & CAP_IPC_LOCK != 0)
}

fn scheduling() -> Finding {
    let (text, _) = limit("Max realtime priority");
    let refused = tried(|| realtime::fifo(PRIORITY)).and_then(Result::err);
    let value = json!({ "limit": text, "refused": refused.map(cause) });
    let said = match refused {
        None => "SCHED_FIFO is granted".to_owned(),
        Some(errno) => format!("SCHED_FIFO is refused: {}", cause(errno)),
    };
    Finding::new("real time", value, format!("{said}; priorities up to {text} without privileges")).advise(
        refused.is_none(),
        "threads cannot run under SCHED_FIFO (--fifo, --loop-fifo): raise it with `ulimit -r 80` or LimitRTPRIO=80 where frames must be punctual",
    )
}

/// Pins a thread to each core at hand.
fn affinity() -> Finding {
    let at_hand = realtime::cores();
    let refused = tried(|| {
        let one = |core: &usize| realtime::confine(&[*core].into_iter().collect()).is_err();
        at_hand.iter().filter(one).collect::<Cores>()
    });
    let refused = refused.unwrap_or(at_hand);
    let isolated = system_file("/sys/devices/system/cpu/isolated");
    let mut text = match refused.is_empty() {
        true => "threads may be pinned to every core at hand".to_owned(),
        false => format!("pinning is refused for cores {refused}"),
    };
    if !isolated.is_empty() {
        text += &format!("; set aside from others: {isolated}");
    }
    let value = json!({ "refused": refused.to_string(), "isolated": isolated });
    Finding::new("affinity", value, text).advise(
        refused.is_empty(),
        "threads cannot be pinned (--cores, --loop-cores): a cgroup or a container forbids sched_setaffinity",
    )
}

/// What the kernel itself is set to.
fn kernel() -> Finding {
    let preempt = system_file("/sys/kernel/realtime") == "1";
    let share = system_file("/proc/sys/kernel/sched_rt_runtime_us");
    let governor = system_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let mut text = match preempt {
        true => "preemptible throughout (PREEMPT_RT)".to_owned(),
        false => "not preemptible throughout (no PREEMPT_RT)".to_owned(),
    };
    if let Ok(us) = share.parse::<i64>() {
        text += &match us {
            -1 => "; real-time threads are never held back".to_owned(),
            us => format!("; real-time threads are held back after {us} us of every period"),
        };
    }
    if !governor.is_empty() {
        text += &format!("; processor clocks by `{governor}`");
    }
    let steady = governor.is_empty() || governor == "performance";
    let value = json!({ "preempt_rt": preempt, "sched_rt_runtime_us": share, "governor": governor });
    Finding::new("kernel", value, text).advise(
        steady,
        "processor clocks follow the load: `sudo cpupower frequency-set -g performance`, on a Jetson `sudo jetson_clocks`",
    )
}

/// The one line of a system's file; empty where there is none.
fn system_file(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_leaves_this_thread_as_it_was() {
        let before = realtime::cores();
        let found = all();
        assert_eq!(realtime::cores(), before);
        let keys: Vec<&str> = found.iter().map(|f| f.key).collect();
        assert_eq!(keys, ["mlock", "real time", "affinity", "kernel"]);
        // What is refused is advised on, and nothing else.
        let scheduling = &found[1];
        assert_eq!(
            scheduling.value["refused"].is_null(),
            scheduling.advice.is_none(),
            "{}",
            scheduling.text
        );
        assert_eq!(tried(|| realtime::fifo(255)).unwrap(), Err(22), "EINVAL");
    }
}
