//! Names of GPU architectures and versions of toolkits: what kernels are compiled for and by.

use serde::{Deserialize, Serialize};

/// The architectures that boards may have, oldest first: `sm_80` data centres and test benches, `sm_87` Orin, `sm_89` and
/// `sm_120` desktops, `sm_90a` H100 and H200, `sm_110` Thor.
pub const ARCHITECTURES: [&str; 6] = ["sm_80", "sm_87", "sm_89", "sm_90a", "sm_110", "sm_120"];

/// Version of a CUDA toolkit, or the newest one that a driver serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Toolkit {
    /// Major version: cubins run under drivers of the same major version and newer.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
}

impl std::fmt::Display for Toolkit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Toolkit {
    /// Where nothing is compiled.
    pub const NONE: Toolkit = Toolkit { major: 0, minor: 0 };

    /// From the number that drivers and runtimes give: 1000 times the major and 10 times the minor version.
    pub fn from_number(number: u32) -> Toolkit {
        let number = number.min(1000 * u32::from(u16::MAX));
        Toolkit {
            major: (number / 1000) as u16,
            minor: (number % 1000 / 10) as u16,
        }
    }

    /// Reads `13.0`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Toolkit> {
        let (major, minor) = text.split_once('.')?;
        let number = |t: &str| t.bytes().all(|b| b.is_ascii_digit()).then(|| t.parse().ok()).flatten();
        Some(Toolkit {
            major: number(major)?,
            minor: number(minor)?,
        })
    }

    /// True if a driver that serves toolkits up to `driver` loads cubins of this one.
    pub fn runs_under(self, driver: Toolkit) -> bool {
        self.major <= driver.major
    }
}

/// True if a GPU of this compute capability runs cubins for the architecture.
///
/// Plain architectures run on later minor versions of their major one, except that the integrated Orin (8.7) and the
/// discrete GPUs of its generation do not take each other's; names ending in `a` are bound to one capability.
pub fn runs_on(architecture: &str, capability: (u32, u32)) -> bool {
    let Some(number) = architecture.strip_prefix("sm_") else {
        return false;
    };
    let (digits, exact) = match number.strip_suffix('a') {
        Some(digits) => (digits, true),
        None => (number, false),
    };
    let Ok(number) = digits.parse::<u32>() else {
        return false;
    };
    let (major, minor) = (number / 10, number % 10);
    let integrated = |minor: u32| major == 8 && minor == 7;
    let same_kind = integrated(minor) == integrated(capability.1);
    major == capability.0 && (minor == capability.1 || !exact && same_kind && minor < capability.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_run_on_what_nvidia_documents() {
        assert!(runs_on("sm_90a", (9, 0)) && runs_on("sm_80", (8, 6)) && runs_on("sm_80", (8, 9)) && runs_on("sm_87", (8, 7)));
        assert!(!runs_on("sm_89", (8, 6)) && !runs_on("sm_80", (9, 0)) && !runs_on("sm_87", (8, 9)) && !runs_on("sm_80", (8, 7)));
        assert!(runs_on("sm_120", (12, 1)) && !runs_on("sm_120a", (12, 1)) && runs_on("sm_110", (11, 0)));
        assert!(!runs_on("x86_64", (8, 6)) && !runs_on("sm_", (0, 0)) && !runs_on("sm_xx", (8, 0)));
    }

    #[test]
    fn versions_read_as_they_are_written_and_order_by_number() {
        let version = |text| Toolkit::parse(text).unwrap();
        assert_eq!(version("12.6").to_string(), "12.6");
        assert_eq!(Toolkit::from_number(12060), version("12.6"));
        assert_eq!(Toolkit::from_number(13000), version("13.0"));
        assert!(version("12.10") > version("12.9") && version("13.0") > version("12.10"));
        assert!(version("12.9").runs_under(version("12.6")) && !version("13.0").runs_under(version("12.9")));
        for bad in ["", "12", "12.", ".6", "12.6.1", "+12.6", "12.-6", "99999.1"] {
            assert_eq!(Toolkit::parse(bad), None, "{bad}");
        }
    }
}
