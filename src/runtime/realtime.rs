//! What the operating system can do for bounded latency: pinned threads, locked memory, a real-time scheduling class.
//!
//! All of it is optional and may be forbidden to this process; what fails is reported, and the engine runs without it.
#![allow(unsafe_code)]

use super::cores::{Cores, MAX_CORES};
use std::fmt;
use std::hint::black_box;

/// Stack that a thread of the loop is given before it needs it.
const STACK: usize = 256 << 10;

/// What is asked of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Realtime {
    /// Pin each worker to one core. Without it they may run on all of [`Realtime::cores`].
    pub pin: bool,
    /// The cores for workers, which take them by turns; `None` for all that this process may use.
    pub cores: Option<Cores>,
    /// The cores that the thread which opens the engine, the loop's, is confined to; `None` leaves it as it is.
    pub loop_cores: Option<Cores>,
    /// Lock all memory of the process, present and future (`mlockall`).
    pub lock_memory: bool,
    /// Run the workers under `SCHED_FIFO` with this priority, 1 to 99.
    pub fifo: Option<u8>,
    /// Run the loop's thread under `SCHED_FIFO` with this priority, 1 to 99.
    pub loop_fifo: Option<u8>,
    /// Touch the stacks of the workers and of the loop's thread, so that no frame waits for their pages. All other memory is
    /// touched when it is taken.
    pub prefault: bool,
}

impl Default for Realtime {
    /// Pinned workers, nothing that needs privileges.
    fn default() -> Realtime {
        Realtime {
            pin: true,
            cores: None,
            loop_cores: None,
            lock_memory: false,
            fifo: None,
            loop_fifo: None,
            prefault: false,
        }
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Pinning a thread.
    Pin,
    /// Locking memory.
    LockMemory,
    /// The scheduling class.
    Fifo,
}

/// Whom it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// All of the process.
    Process,
    /// The thread that opened the engine.
    Loop,
    /// A worker.
    Worker(usize),
}

/// A wish that the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was asked for.
    pub wish: Wish,
    /// Whom for.
    pub whom: For,
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
        match self.whom {
            For::Process => {}
            For::Loop => f.write_str(" for the loop's thread")?,
            For::Worker(worker) => write!(f, " for worker {worker}")?,
        }
        write!(f, ": {}", std::io::Error::from_raw_os_error(self.errno))
    }
}

impl Realtime {
    /// Does what is asked for the calling thread as worker number `worker`; `refuse` gets what was refused.
    pub fn enter_worker(&self, worker: usize, at_hand: &Cores, mut refuse: impl FnMut(Refused)) {
        let cores = self.cores.unwrap_or(*at_hand);
        let turn = worker % cores.iter().count().max(1);
        let own = match self.pin {
            // No core at all is left for the system to refuse.
            true if self.cores.is_some() || !at_hand.is_empty() => Some(cores.iter().nth(turn).into_iter().collect()),
            _ => self.cores,
        };
        enter(own, self.fifo, self.prefault, |wish, errno| {
            let whom = For::Worker(worker);
            refuse(Refused { wish, whom, errno });
        });
    }

    /// Does what is asked for the process, and for the calling thread as the loop's; `refuse` gets what was refused.
    pub fn enter_loop(&self, mut refuse: impl FnMut(Refused)) {
        if self.lock_memory
            && let Err(errno) = lock_memory()
        {
            let (wish, whom) = (Wish::LockMemory, For::Process);
            refuse(Refused { wish, whom, errno });
        }
        enter(self.loop_cores, self.loop_fifo, self.prefault, |wish, errno| {
            let whom = For::Loop;
            refuse(Refused { wish, whom, errno });
        });
    }
}

fn enter(cores: Option<Cores>, priority: Option<u8>, prefault: bool, mut refuse: impl FnMut(Wish, i32)) {
    if let Some(Err(errno)) = cores.map(|cores| confine(&cores)) {
        refuse(Wish::Pin, errno);
    }
    if let Some(Err(errno)) = priority.map(fifo) {
        refuse(Wish::Fifo, errno);
    }
    if prefault {
        touch_stack();
    }
}

/// Writes to as much stack as the calling thread will ever need here.
#[inline(never)]
fn touch_stack() {
    black_box(&mut [0u8; STACK]);
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The cores the calling thread may run on; none if the system does not say.
pub fn cores() -> Cores {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writes of its own size; 0 names the calling thread.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0;
    if failed {
        return Cores::NONE;
    }
    (0..MAX_CORES.min(libc::CPU_SETSIZE as usize))
        // SAFETY: the index is below CPU_SETSIZE, so inside the set.
        .filter(|&core| unsafe { libc::CPU_ISSET(core, &set) })
        .collect()
}

/// Confines the calling thread to these cores; the error number if the system refuses, or has none of them.
pub fn confine(cores: &Cores) -> Result<(), i32> {
    // SAFETY: an all-zero cpu_set_t is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores.iter().filter(|&core| core < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is inside the set by the check above.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
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

/// Takes [`lock_memory`] back.
pub fn unlock_memory() {
    // SAFETY: a system call without arguments.
    let _ = unsafe { libc::munlockall() };
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

    /// What a fresh thread is refused.
    fn refused(enter: impl FnOnce(&mut Vec<Refused>) + Send) -> Vec<Refused> {
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| enter(&mut all));
        });
        all
    }

    #[test]
    fn a_worker_has_its_core_of_those_it_may_have_and_the_loop_its_own() {
        let at_hand = cores();
        let last = at_hand.iter().last().expect("the system names no cores");
        let wishes = Realtime {
            cores: Some([last].into_iter().collect()),
            prefault: true,
            ..Realtime::default()
        };
        let all = refused(|all| {
            wishes.enter_worker(7, &at_hand, |r| all.push(r));
            assert_eq!(cores(), [last].into_iter().collect());
        });
        assert_eq!(all, []);
        // Workers take turns.
        let all = refused(|all| {
            let count = at_hand.iter().count();
            Realtime::default().enter_worker(count, &at_hand, |r| all.push(r));
            assert_eq!(cores().iter().next(), at_hand.iter().next());
        });
        assert_eq!(all, []);
        let all = refused(|all| {
            let wishes = Realtime {
                loop_cores: wishes.cores,
                ..wishes
            };
            wishes.enter_loop(|r| all.push(r));
            assert_eq!(cores().to_string(), last.to_string());
        });
        assert_eq!(all, []);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_cause_and_whom_it_was_for() {
        let nowhere = Realtime {
            loop_cores: Some([MAX_CORES - 1].into_iter().collect()),
            cores: Some([MAX_CORES - 1].into_iter().collect()),
            fifo: Some(255),
            loop_fifo: Some(255),
            ..Realtime::default()
        };
        let mut all = refused(|all| nowhere.enter_worker(3, &cores(), |r| all.push(r)));
        all.extend(refused(|all| nowhere.enter_loop(|r| all.push(r))));
        let said: Vec<String> = all.iter().map(|r| r.to_string()).collect();
        let begins = [
            "pinning was refused for worker 3: ",
            "real-time scheduling was refused for worker 3: ",
            "pinning was refused for the loop's thread: ",
            "real-time scheduling was refused for the loop's thread: ",
        ];
        assert!(
            said.len() == 4 && said.iter().zip(begins).all(|(s, b)| s.starts_with(b)),
            "{said:?}"
        );
    }
}
