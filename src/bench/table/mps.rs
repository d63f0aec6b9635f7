//! Networks as processes of their own under NVIDIA's Multi-Process Service, each with a share of the SMs.
//!
//! The service's control daemon has a folder of its own for pipes and logs, so nothing of the machine's is touched. A shell keeps
//! it: as soon as the shell's input ends, because the daemon is dropped here or because this process is gone, it tells the daemon
//! to quit and ends what is left of it.

use crate::bench::peers::{PeerError, read_answer, times};
use crate::plan::format::Plan;
use crate::planner::cost;
use crate::units::Nanos;
use serde_json::json;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The service's control program.
const CONTROL: &str = "nvidia-cuda-mps-control";
/// Where containers have the driver's programs, beside what the path says.
const DRIVER_PROGRAMS: &str = "/usr/local/nvidia/bin";
/// How long the daemon may take to answer for the first time.
const START: Duration = Duration::from_secs(10);
/// How long one of its answers may take, and a process to end.
const ANSWER: Duration = Duration::from_secs(5);
/// Time for all processes to read a request before the first frame.
const NOTICE: Duration = Duration::from_millis(5);
/// Smallest share of a network, in percent of the SMs at hand: what is smaller than two SMs of 16 is no share.
const LEAST: u64 = 10;

/// Keeps the daemon until the input ends.
const KEEPER: &str = "\
nvidia-cuda-mps-control -f </dev/null >\"$CUDA_MPS_LOG_DIRECTORY/said\" 2>&1 &
control=$!
while read -r _; do :; done
servers=$(echo get_server_list | timeout 5 nvidia-cuda-mps-control 2>/dev/null)
echo quit | timeout 10 nvidia-cuda-mps-control >/dev/null 2>&1
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    kill -0 $control 2>/dev/null || break
    sleep 0.1
done
kill -KILL $control $servers 2>/dev/null
wait
rm -rf \"$CUDA_MPS_PIPE_DIRECTORY\" \"$CUDA_MPS_LOG_DIRECTORY\"
";

/// Why nothing runs under MPS.
#[derive(Debug, thiserror::Error)]
pub enum MpsError {
    /// The machine lacks the service.
    #[error("`{CONTROL}` does not start: it comes with NVIDIA's driver")]
    Absent(#[source] io::Error),
    /// The daemon's folder cannot be made.
    #[error("{}: cannot be made", .0.display())]
    Folder(PathBuf, #[source] io::Error),
    /// The daemon does not answer; what it said.
    #[error("MPS does not start: {0}")]
    Silent(String),
    /// A process does not start.
    #[error("a process of our own does not start under MPS")]
    Start(#[source] io::Error),
    /// The processes hold more than the part of the GPU that the others run on.
    #[error("the processes hold {held} SMs together, as small shares are rounded up, and the board has {units}")]
    Shares {
        /// What they hold.
        held: u32,
        /// The SMs of the board.
        units: u32,
    },
    /// A process cannot run its network.
    #[error("a network does not run under MPS")]
    Process(#[from] PeerError),
}

/// The control daemon at work.
pub struct Daemon {
    folder: PathBuf,
    keeper: Child,
    input: Option<ChildStdin>,
}

impl Daemon {
    /// Starts the daemon, with its pipes and logs in a temporary folder of its own.
    pub fn start() -> Result<Daemon, MpsError> {
        // Asked for nothing, the program says how it is used; it is only to be seen whether there is one.
        let mut probe = Command::new(CONTROL);
        settle(&mut probe, Path::new(""));
        let there = probe
            .arg("-h")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        there.map_err(MpsError::Absent)?;
        let folder = std::env::temp_dir().join(format!("platoon-mps-{}", std::process::id()));
        for part in ["pipe", "log"] {
            let part = folder.join(part);
            std::fs::create_dir_all(&part).map_err(|error| MpsError::Folder(part.clone(), error))?;
        }
        let mut command = Command::new("sh");
        settle(&mut command, &folder);
        // In a group of its own it outlives an interrupt from the keyboard, and cleans up.
        command.args(["-c", KEEPER]).process_group(0).stdin(Stdio::piped());
        let mut keeper = command.spawn().map_err(MpsError::Start)?;
        let input = keeper.stdin.take();
        let daemon = Daemon { folder, keeper, input };
        let begun = Instant::now();
        while daemon.ask("get_default_active_thread_percentage").is_none() {
            if begun.elapsed() > START {
                let said = std::fs::read_to_string(daemon.folder.join("log/said")).unwrap_or_default();
                return Err(MpsError::Silent(said.trim().replace('\n', "; ")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(daemon)
    }

    /// What the daemon answers to a command; `None` if it does not.
    fn ask(&self, wanted: &str) -> Option<String> {
        let mut command = Command::new(CONTROL);
        settle(&mut command, &self.folder);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = pipes.spawn().ok()?;
        let told = process.stdin.take().map(|mut input| writeln!(input, "{wanted}"));
        let good = ended(&mut process, ANSWER);
        let mut said = String::new();
        process.stdout.take()?.read_to_string(&mut said).ok()?;
        (good && told.is_some_and(|t| t.is_ok())).then_some(said)
    }

    /// Starts a process a command, each confined to its share of the GPU's SMs in percent.
    pub fn followers(&self, commands: Vec<Command>, shares: &[u32]) -> Result<Followers, MpsError> {
        Followers::start(&self.folder, commands, shares)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.input.take());
        // The keeper gives the daemon time, and ends by itself.
        let _ = self.keeper.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Lets a command find the service, and the daemon of a folder.
fn settle(command: &mut Command, folder: &Path) {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:{DRIVER_PROGRAMS}"));
    command.env("CUDA_MPS_PIPE_DIRECTORY", folder.join("pipe"));
    command.env("CUDA_MPS_LOG_DIRECTORY", folder.join("log"));
}

/// Waits for a process to end by itself, else ends it; true if it ended well.
fn ended(process: &mut Child, limit: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        match process.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => break,
        }
    }
    let _ = process.kill();
    let _ = process.wait();
    false
}

struct Follower {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.requests.take());
        ended(&mut self.process, ANSWER);
    }
}

/// The processes of one row.
pub struct Followers {
    all: Vec<Follower>,
    /// The SMs that each of them may hold.
    pub sms: Vec<u32>,
}

impl Followers {
    /// Refuses processes that hold more than `units` SMs of a GPU of `of`. Of the whole GPU they may ask for more than there is.
    pub fn within(self, units: u32, of: u32) -> Result<Followers, MpsError> {
        let held = self.sms.iter().sum();
        if units < of && held > units {
            return Err(MpsError::Shares { held, units });
        }
        Ok(self)
    }

    fn start(folder: &Path, commands: Vec<Command>, shares: &[u32]) -> Result<Followers, MpsError> {
        let mut all = Vec::with_capacity(commands.len());
        for (mut command, share) in commands.into_iter().zip(shares) {
            settle(&mut command, folder);
            command.env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share.to_string());
            let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = pipes.spawn().map_err(MpsError::Start)?;
            let lost = || MpsError::Start(io::ErrorKind::BrokenPipe.into());
            let requests = Some(process.stdin.take().ok_or_else(lost)?);
            let answers = BufReader::new(process.stdout.take().ok_or_else(lost)?);
            all.push(Follower {
                process,
                requests,
                answers,
            });
        }
        let mut sms = Vec::with_capacity(all.len());
        for follower in &mut all {
            let greeting = read_answer(&mut follower.answers)?;
            let own = greeting["sms"].as_u64().and_then(|n| u32::try_from(n).ok());
            sms.push(own.ok_or_else(|| PeerError::Answer(greeting.to_string()))?);
        }
        Ok(Followers { all, sms })
    }

    /// Runs frames in all processes, which begin together every `period`: `warm` uncounted ones, then `count` of which the times
    /// until the last process has its result are returned.
    pub fn run(&mut self, warm: usize, count: usize, period: Nanos) -> Result<Vec<Nanos>, MpsError> {
        let frames = warm + count;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = u64::try_from((now + NOTICE).as_nanos()).unwrap_or(u64::MAX);
        let request = json!({ "start": start, "period": period.0, "frames": frames });
        for follower in &mut self.all {
            let lost = || PeerError::Lost(io::ErrorKind::BrokenPipe.into());
            let requests = follower.requests.as_mut().ok_or_else(lost)?;
            writeln!(requests, "{request}")
                .and_then(|()| requests.flush())
                .map_err(PeerError::Lost)?;
        }
        let mut longest = vec![Nanos(0); frames];
        for follower in &mut self.all {
            let own = times(&read_answer(&mut follower.answers)?, "ns", frames)?;
            longest.iter_mut().zip(own).for_each(|(all, one)| *all = (*all).max(one));
        }
        Ok(longest.split_off(warm))
    }
}

/// Shares of the GPU in percent for the tenants of a plan, by their multiply-adds, as the papers' comparison has it; none is
/// smaller than a tenth. Together they are about `part` of `of` SMs.
pub fn shares(plan: &Plan, part: u32, of: u32) -> Vec<u32> {
    let work = |tenant: usize| -> u64 {
        let own = plan.operators.iter().filter(|o| o.tenant.index() == tenant);
        own.map(|o| cost::work(o).0).sum()
    };
    let works: Vec<u64> = (0..plan.tenants.len()).map(work).collect();
    percents(&works, part, of)
}

fn percents(works: &[u64], part: u32, of: u32) -> Vec<u32> {
    let all = works.iter().sum::<u64>().max(1);
    let own = |&work: &u64| (100 * work).div_ceil(all).max(LEAST) * u64::from(part);
    works
        .iter()
        .map(|w| own(w).div_ceil(u64::from(of.max(1))).clamp(1, 100) as u32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_work_and_none_is_too_small_to_run() {
        assert_eq!(percents(&[30, 60, 10], 132, 132), [30, 60, 10]);
        assert_eq!(percents(&[1000, 1, 0], 132, 132), [100, 10, 10]);
        assert_eq!(percents(&[50, 50], 16, 132), [7, 7]);
        assert_eq!(percents(&[0], 1, 0), [10]);
    }

    #[test]
    fn frames_end_with_the_last_process() {
        // `sh` answers like a follower whose frames take as long as its name says.
        let follower = |time: u64| {
            let script = format!("echo '{{\"sms\": 4}}'; while read -r _; do echo '{{\"ns\": [9, {time}, {time}]}}'; done");
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            command
        };
        let mut followers = Followers::start(Path::new("no-mps"), vec![follower(3), follower(5)], &[50, 50]).unwrap();
        assert_eq!(followers.sms, [4, 4]);
        assert_eq!(followers.run(1, 2, Nanos(1)).unwrap(), [Nanos(5), Nanos(5)]);
        followers = followers.within(8, 132).unwrap().within(6, 6).unwrap();
        assert!(matches!(
            followers.run(0, 2, Nanos(1)),
            Err(MpsError::Process(PeerError::Answer(_)))
        ));
    }

    #[test]
    fn a_process_that_says_nothing_is_an_error() {
        let found = Followers::start(Path::new("no-mps"), vec![Command::new("true")], &[100]);
        assert!(matches!(found, Err(MpsError::Process(PeerError::Lost(_)))));
    }
}
