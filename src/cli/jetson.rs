//! A Jetson as its system describes it: which one it is, its power mode, the clocks of its GPU.
//!
//! All of it is read from files that any user may read; `root` is where the file system begins, so that tests can make one.

use crate::planner::boards;
use std::path::{Path, PathBuf};

/// Longest of the files that are read, in bytes.
const MOST: u64 = 64 << 10;

/// What is known of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jetson {
    /// As the device tree names it: `NVIDIA Jetson AGX Orin Developer Kit`.
    pub model: String,
    /// Release of Jetson Linux: `36.4.3`.
    pub release: Option<String>,
    /// Number and name of the power mode.
    pub mode: Option<Mode>,
    /// The GPU's clocks, as far as the system limits them now.
    pub gpu: Option<Clocks>,
}

/// A power mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mode {
    /// What `nvpmodel -m` takes.
    pub number: u32,
    /// Its name, where the system's list has it.
    pub name: Option<String>,
}

/// The range in which a clock moves, in MHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The lowest.
    pub least: u64,
    /// The highest.
    pub most: u64,
}

impl Clocks {
    /// True if the clock cannot move: as `jetson_clocks` leaves it.
    pub fn are_locked(self) -> bool {
        self.least == self.most
    }
}

/// The Jetson that the system below `root` runs on; `None` on other machines.
pub fn read(root: &Path) -> Option<Jetson> {
    let model = text(&root.join("proc/device-tree/model"))?;
    let model = model.trim_end_matches(['\0', '\n']).to_owned();
    model.contains("Jetson").then(|| Jetson {
        release: text(&root.join("etc/nv_tegra_release")).and_then(|t| release(&t)),
        mode: mode(root),
        gpu: gpu(root),
        model,
    })
}

impl Jetson {
    /// The file of a board that is this machine, of a folder of boards.
    pub fn board(&self, folder: &Path) -> Option<PathBuf> {
        let named = |file: &PathBuf| {
            let machine = file.to_str().and_then(|f| boards::machine(f).ok());
            machine.and_then(|m| m.model).is_some_and(|model| self.model.contains(&model))
        };
        boards::all(folder).into_iter().map(|(file, _)| file).find(named)
    }
}

fn text(file: &Path) -> Option<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

/// From `# R36 (release), REVISION: 4.3, GCID: ...`.
fn release(text: &str) -> Option<String> {
    let line = text.lines().next()?;
    let major = line.strip_prefix("# R")?.split_whitespace().next()?;
    let minor = line.split_once("REVISION: ")?.1.split(',').next()?;
    let number = |t: &str| !t.is_empty() && t.chars().all(|c| c.is_ascii_digit() || c == '.');
    (number(major) && number(minor)).then(|| format!("{major}.{minor}"))
}

/// From `pmode:0002` of the service that keeps the mode, and `< POWER_MODEL ID=2 NAME=MODE_30W >` of its list.
fn mode(root: &Path) -> Option<Mode> {
    let status = text(&root.join("var/lib/nvpmodel/status"))?;
    let digits: String = status.split_once("pmode:")?.1.chars().take_while(char::is_ascii_digit).collect();
    let number: u32 = digits.parse().ok()?;
    let list = text(&root.join("etc/nvpmodel.conf")).unwrap_or_default();
    let named = |line: &str| -> Option<String> {
        let words: Vec<&str> = line.trim_start().strip_prefix('<')?.split_whitespace().collect();
        let value = |key: &str| words.iter().find_map(|w| w.strip_prefix(key)?.strip_prefix('='));
        let this = words.first() == Some(&"POWER_MODEL") && value("ID")?.parse() == Ok(number);
        this.then(|| value("NAME").map(String::from)).flatten()
    };
    Some(Mode {
        number,
        name: list.lines().find_map(named),
    })
}

/// The device whose clock is the GPU's: `17000000.gpu` or `17000000.ga10b` on an Orin, `gpu-gpc-0` on a Thor.
fn gpu(root: &Path) -> Option<Clocks> {
    let devices = std::fs::read_dir(root.join("sys/class/devfreq")).ok()?;
    let mut devices: Vec<PathBuf> = devices.flatten().map(|d| d.path()).collect();
    devices.sort();
    let is_gpu = |path: &PathBuf| {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        ["gpu", "ga10b", "gpc"].iter().any(|part| name.contains(part))
    };
    let device = devices.into_iter().find(is_gpu)?;
    let mhz = |file: &str| Some(text(&device.join(file))?.trim().parse::<u64>().ok()? / 1_000_000);
    Some(Clocks {
        least: mhz("min_freq")?,
        most: mhz("max_freq")?,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The files of a Jetson AGX Orin in the mode of this number, its GPU's clock from `least` to `most` Hz.
    pub fn orin(root: &Path, mode: u32, least: u64, most: u64) {
        let files = [
            ("proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0".to_owned()),
            (
                "etc/nv_tegra_release",
                "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n# more\n".into(),
            ),
            ("var/lib/nvpmodel/status", format!("pmode:{mode:04}\n")),
            (
                "etc/nvpmodel.conf",
                "# list\n< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_0 1\n< POWER_MODEL ID=2 NAME=MODE_30W >\n".into(),
            ),
            ("sys/class/devfreq/15340000.vic/max_freq", "1\n".into()),
            ("sys/class/devfreq/17000000.gpu/min_freq", format!("{least}\n")),
            ("sys/class/devfreq/17000000.gpu/max_freq", format!("{most}\n")),
        ];
        for (file, text) in files {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
    }

    #[test]
    fn a_jetson_says_what_it_is_and_how_fast_it_may_be() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read(root.path()), None);
        orin(root.path(), 2, 306_000_000, 612_000_000);
        let found = read(root.path()).unwrap();
        assert_eq!(found.model, "NVIDIA Jetson AGX Orin Developer Kit");
        assert_eq!(found.release.as_deref(), Some("36.4.3"));
        let name = Some("MODE_30W".into());
        assert_eq!(found.mode, Some(Mode { number: 2, name }));
        assert_eq!(found.gpu, Some(Clocks { least: 306, most: 612 }));
        assert!(!found.gpu.unwrap().are_locked());
        let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
        assert_eq!(found.board(&boards), Some(boards.join("jetson-agx-orin.toml")));
    }

    #[test]
    fn what_a_jetson_does_not_say_is_not_known() {
        let root = tempfile::tempdir().unwrap();
        orin(root.path(), 9, 1, 1);
        for (file, text) in [
            ("etc/nv_tegra_release", "# Rx (release), REVISION: 4.3"),
            ("sys/class/devfreq/17000000.gpu/max_freq", "fast"),
            (
                "proc/device-tree/model",
                "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super\0",
            ),
        ] {
            std::fs::write(root.path().join(file), text).unwrap();
        }
        let found = read(root.path()).unwrap();
        assert_eq!((found.release.as_ref(), found.gpu), (None, None));
        assert_eq!(found.mode, Some(Mode { number: 9, name: None }));
        let boards = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
        assert_eq!(found.board(&boards), Some(boards.join("jetson-orin-nano.toml")));
        std::fs::write(root.path().join("var/lib/nvpmodel/status"), "pmode:99999999999").unwrap();
        std::fs::write(root.path().join("proc/device-tree/model"), [0xff, 0xfe]).unwrap();
        assert_eq!(read(root.path()), None);
    }
}
