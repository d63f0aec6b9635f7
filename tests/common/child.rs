//! Tests in processes of their own: for what ends a process, or is counted for a whole one.

use std::process::Command;

/// In the child, the name of its test.
const CHILD: &str = "PLATOON_CHILD_TEST";

/// True in a process that was made by [`command`].
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// In the child of this test, runs `body` and ends the process; elsewhere does nothing.
pub fn enter(test: &str, body: impl FnOnce()) {
    if std::env::var(CHILD).is_ok_and(|t| t == test) {
        body();
        std::process::exit(0);
    }
}

/// The command that runs a test of this binary alone. `test` is the test's path, as the test harness names it.
pub fn command(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, test);
    command
}

/// Runs a child, which must exit with 0. Returns what it printed.
pub fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text.into_owned()
}
