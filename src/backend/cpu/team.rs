//! The team: a fixed number of named threads, and the bell by which threads wait for one another.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Wakes threads that wait for a change in atomics which the bell knows nothing of.
///
/// The waiter reads [`Bell::count`], then looks at its atomics, then sleeps on the count it read; whoever changes an
/// atomic rings afterwards. No wake-up is lost: `ring` raises the count before it looks for sleepers and `sleep` enters
/// itself as a sleeper before it looks at the count, all sequentially consistent, so at least one sees the other. Ringing
/// with nobody asleep costs two atomic operations and takes no lock.
#[derive(Default)]
pub(super) struct Bell {
    count: AtomicU64,
    sleepers: AtomicU32,
    door: Mutex<()>,
    bell: Condvar,
}

impl Bell {
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    pub(super) fn ring(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // A sleeper holds the door from its last look at the count until it sleeps, so the bell cannot ring between.
            drop(self.enter());
            self.bell.notify_all();
        }
    }

    /// Sleeps until the count differs from `seen`, at most until `limit`.
    pub(super) fn sleep(&self, seen: u64, limit: Option<Instant>) {
        let mut door = self.enter();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.count.load(Ordering::SeqCst) == seen {
            door = match limit.map(|l| l.saturating_duration_since(Instant::now())) {
                None => self.bell.wait(door).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break,
                Some(left) => self.bell.wait_timeout(door, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn enter(&self) -> MutexGuard<'_, ()> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spins a bounded number of rounds before a thread goes to sleep.
pub(super) struct Patience {
    rounds: u32,
    left: u32,
}

impl Patience {
    /// `rounds` 0 sleeps at once: right where threads outnumber cores.
    pub(super) fn new(rounds: u32) -> Patience {
        Patience { rounds, left: rounds }
    }

    /// Something was found to do: start over.
    pub(super) fn renew(&mut self) {
        self.left = self.rounds;
    }

    /// Spins once, or, out of patience, sleeps until the bell's count leaves `seen`.
    pub(super) fn wait(&mut self, bell: &Bell, seen: u64) {
        if self.left > 0 {
            self.left -= 1;
            std::hint::spin_loop();
        } else {
            bell.sleep(seen, None);
            self.renew();
        }
    }
}

/// How long a worker or the host spins for before it sleeps, in rounds of `spin_loop`: some tens of microseconds.
pub(super) const SPIN_ROUNDS: u32 = 2_000;

/// What the team and its owner share to stop.
#[derive(Default)]
pub(super) struct Halt {
    stop: AtomicBool,
    alive: AtomicU32,
}

impl Halt {
    /// True once the team is told to stop.
    pub(super) fn is_set(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Threads that have not ended.
    pub(super) fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst) as usize
    }

    /// Tells the team to stop at the next step. The caller rings the team's bell.
    pub(super) fn set(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// The threads.
pub(super) struct Team {
    names: Vec<String>,
    threads: Vec<JoinHandle<()>>,
}

impl Team {
    /// Starts `workers` threads that run `work(index)` to its end. Those already started stop if one cannot start, once
    /// the caller sets `halt`.
    pub(super) fn start<W>(workers: usize, halt: &Arc<Halt>, exit: &Arc<Bell>, work: W) -> Result<Team, (std::io::Error, Team)>
    where
        W: Fn(usize) + Clone + Send + 'static,
    {
        let mut team = Team {
            names: Vec::with_capacity(workers),
            threads: Vec::with_capacity(workers),
        };
        for index in 0..workers {
            let name = format!("platoon-cpu-{index}");
            let (work, leave) = (work.clone(), Leave(halt.clone(), exit.clone()));
            halt.alive.fetch_add(1, Ordering::SeqCst);
            let started = std::thread::Builder::new().name(name.clone()).spawn(move || {
                let _leave = leave;
                work(index);
            });
            match started {
                Ok(handle) => {
                    team.names.push(name);
                    team.threads.push(handle);
                }
                Err(error) => return Err((error, team)),
            }
        }
        Ok(team)
    }

    /// Names of the threads.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Waits until all threads have ended, at most until `limit`, and returns how many have not. Those are leaked: they
    /// own what they use. The caller has told them to stop.
    pub(super) fn join(self, halt: &Halt, exit: &Bell, limit: Instant) -> usize {
        loop {
            let seen = exit.count();
            if halt.alive() == 0 {
                break;
            }
            if Instant::now() >= limit {
                break;
            }
            exit.sleep(seen, Some(limit));
        }
        let all = halt.alive() == 0;
        let mut leaked = 0;
        for thread in self.threads {
            // A thread that has counted itself out has nothing left to run, so its join does not block.
            if all || thread.is_finished() {
                let _ = thread.join();
            } else {
                leaked += 1;
            }
        }
        leaked
    }
}

/// Counts a thread out when its work has ended, however it ended.
struct Leave(Arc<Halt>, Arc<Bell>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::SeqCst);
        self.1.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wake_up_is_lost_between_two_threads_that_only_sleep() {
        let shared = Arc::new((Bell::default(), AtomicU64::new(0)));
        let other = shared.clone();
        let play = |shared: &(Bell, AtomicU64), parity: u64| {
            for turn in (0..20_000).filter(|t| t % 2 == parity) {
                loop {
                    let seen = shared.0.count();
                    if shared.1.load(Ordering::Acquire) == turn {
                        break;
                    }
                    shared.0.sleep(seen, None);
                }
                shared.1.store(turn + 1, Ordering::Release);
                shared.0.ring();
            }
        };
        let thread = std::thread::spawn(move || play(&other, 1));
        play(&shared, 0);
        thread.join().unwrap();
        assert_eq!(shared.1.load(Ordering::Acquire), 20_000);
    }

    #[test]
    fn a_stuck_thread_is_leaked_and_the_others_are_joined() {
        let (halt, exit, work) = (Arc::new(Halt::default()), Arc::new(Bell::default()), Arc::new(Bell::default()));
        let (h, w) = (halt.clone(), work.clone());
        let team = Team::start(3, &halt, &exit, move |index| {
            while !h.is_set() || index == 1 {
                let seen = w.count();
                if !h.is_set() || index == 1 {
                    w.sleep(seen, None);
                }
            }
        })
        .map_err(|(e, _)| e)
        .unwrap();
        assert_eq!(team.names()[2], "platoon-cpu-2");
        halt.set();
        work.ring();
        assert_eq!(team.join(&halt, &exit, Instant::now() + Duration::from_millis(300)), 1);
    }
}
