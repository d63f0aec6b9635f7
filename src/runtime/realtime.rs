//! What the operating system can do for bounded latency: pinned workers, locked memory, a real-time scheduling class.
//!
//! All of it is optional and may be forbidden to this process; what fails is reported, and the engine runs without it.
#![allow(unsafe_code)]

use std::fmt;

/// What is asked of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Realtime {
    /// Pin each worker to one of the cores this process may use.
    pub pin: bool,
    /// Lock all memory of the process, present and future (`mlockall`).
    pub lock_memory: bool,
    /// Run the workers under `SCHED_FIFO` with this priority, 1 to 99.
    pub fifo: Option<u8>,
}

impl Default for Realtime {
    /// Pinned workers, nothing that needs privileges.
    fn default() -> Realtime {
        Realtime {
            pin: true,
            lock_memory: false,
            fifo: None,
        }
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Pinning a worker.
    Pin,
    /// Locking memory.
    LockMemory,
    /// The scheduling class.
    Fifo,
}

/// A wish that the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was asked for.
    pub wish: Wish,
    /// The worker it was for, if for one.
    pub worker: Option<usize>,
    /// The system's error number.
    pub errno: i32,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.wish {
            Wish::Pin => "pinning",
            Wish::LockMemory => "locking memory",
            Wish::Fifo => "real-time scheduling",
        };
        write!(f, "{what} was refused")?;
        if let Some(worker) = self.worker {
            write!(f, " for worker {worker}")?;
        }
        write!(f, ": {}", std::io::Error::from_raw_os_error(self.errno))
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The cores the calling thread may run on, ascending; empty if the system does not say.
pub fn cores() -> Vec<usize> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writes of its own size; 0 names the calling thread.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0;
    if failed {
        return Vec::new();
    }
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the index is below CPU_SETSIZE, so inside the set.
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect()
}

/// Pins the calling thread to one core; the error number if the system refuses.
pub fn pin(core: usize) -> Result<(), i32> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(libc::EINVAL);
    }
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the index is inside the set by the check above.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is valid for reads of its own size; 0 names the calling thread.
    let failed = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } != 0;
    if failed { Err(errno()) } else { Ok(()) }
}

/// Locks all memory of the process, present and future; the error number if the system refuses.
pub fn lock_memory() -> Result<(), i32> {
    // SAFETY: a system call on flags alone.
    let failed = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0;
    if failed { Err(errno()) } else { Ok(()) }
}

/// Puts the calling thread under `SCHED_FIFO` with `priority`; the error number if the system refuses.
pub fn fifo(priority: u8) -> Result<(), i32> {
    // SAFETY: all fields of sched_param are integers, for which zero is valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = i32::from(priority);
    // SAFETY: the parameters are valid for reads; 0 names the calling thread.
    let failed = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } != 0;
    if failed { Err(errno()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_that_core_alone() {
        let Some(&core) = cores().last() else {
            panic!("the system names no cores");
        };
        std::thread::spawn(move || {
            pin(core).unwrap();
            assert_eq!(cores(), [core]);
        })
        .join()
        .unwrap();
        assert_eq!(pin(usize::MAX), Err(libc::EINVAL));
    }

    #[test]
    fn an_impossible_priority_is_an_error_with_its_cause() {
        let errno = std::thread::spawn(|| fifo(255)).join().unwrap().unwrap_err();
        let refused = Refused {
            wish: Wish::Fifo,
            worker: Some(3),
            errno,
        };
        assert!(refused.to_string().starts_with("real-time scheduling was refused for worker 3: "));
    }
}
