//! Times of the synthetic camera on one core.
//!
//! `cargo run --release --no-default-features --features scenes --example scene_times` renders 240 frames of 12 drives and
//! prints the median, the 90th percentile and the worst time of a frame. The first frame of a drive, which also builds the
//! bodies in sight, is measured by itself.

use std::io::Write;
use std::time::{Duration, Instant};

use platoon::scenes::{Drive, Frame, Renderer};

fn main() -> std::io::Result<()> {
    let (mut renderer, mut frame) = (Renderer::new(), Frame::default());
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for seed in 1..=12 {
        let drive = Drive::new(seed);
        for number in 0..20 {
            let start = Instant::now();
            renderer.render(&drive, number * 7, &mut frame);
            let times = if number == 0 { &mut first } else { &mut later };
            times.push(start.elapsed());
        }
    }
    let mut out = std::io::stdout().lock();
    for (name, mut times) in [("first frames", first), ("later frames", later)] {
        times.sort_unstable();
        let at = |part: usize| milliseconds(times[(times.len() - 1) * part / 100]);
        writeln!(
            out,
            "{name}: median {} ms, 90th percentile {} ms, worst {} ms",
            at(50),
            at(90),
            at(100)
        )?;
    }
    Ok(())
}

fn milliseconds(time: Duration) -> String {
    format!("{}.{:02}", time.as_millis(), time.as_micros() % 1000 / 10)
}
