//! Which machine a report was made on.
//!
//! Enough to know whether two reports can be compared, and nothing that identifies its owner.

use std::fs;
use std::thread;

use serde::{Deserialize, Serialize};

/// The machine, as far as it explains a throughput.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_mb: u64,
}

/// Describes the machine this runs on; what cannot be found out is "unknown" or 0.
pub(crate) fn describe() -> Machine {
    // A report without these is still a report, so an unreadable file is no error.
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Machine {
        cpu: cpu_model(&cpuinfo).unwrap_or("unknown").to_owned(),
        cores: thread::available_parallelism().map_or(0, Into::into),
        memory_mb: memory_kib(&meminfo).map_or(0, |kib| kib * 1024 / 1_000_000),
    }
}

fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

fn memory_kib(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    rest.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_understood() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\nmodel name\t: Other\n";
        assert_eq!(cpu_model(cpuinfo), Some("Some CPU @ 2.0GHz"));
        assert_eq!(cpu_model("processor : 0\n"), None);
        assert_eq!(memory_kib("MemTotal:       16384256 kB\nMemFree: 1 kB\n"), Some(16_384_256));
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let machine = describe();
        assert!(machine.cores > 0 && machine.memory_mb > 0, "{machine:?}");
    }
}
