//! The `platoon` program; everything it does is in [`platoon::cli`].

fn main() -> std::process::ExitCode {
    platoon::cli::main()
}
