//! What is here, what is missing, and what to do about it.

use crate::{device, error::Error, settings::Settings, threads::share};
use millstream_prefetch::{CudaDevice, cuda_devices};
use millstream_stage::Warnings;
use serde::Serialize;
use std::{fs, path::Path};

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// Whether it is there.
    pub ok: bool,
    /// What was found, and what to do where it is missing.
    pub found: String,
    /// Whether the settings ask for it, so that nothing runs without it.
    pub asked: bool,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Finding { what, ok: true, found: found.into(), asked: false }
    }

    fn missing(what: &'static str, found: impl Into<String>) -> Self {
        Finding { what, ok: false, found: found.into(), asked: false }
    }

    fn asked(self) -> Self {
        Finding { asked: true, ..self }
    }
}

/// Looks at everything; a missing thing is a finding.
pub fn examine(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![
        libtorch(),
        driver(),
        device(settings),
        memory(),
        threads(settings),
        database(settings),
        writable("run.dir", &settings.run.dir),
    ];
    if !settings.source.cache.is_empty() {
        findings.push(writable("source.cache", Path::new(&settings.source.cache)));
    }
    findings
}

fn libtorch() -> Finding {
    // What the program really loaded, not what a variable says.
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    // Names of files need not be text.
    let maps = String::from_utf8_lossy(&maps);
    let mut files = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).map(Path::new);
    let Some(library) = files.find(|path| path.ends_with("libtorch_cpu.so")) else {
        return Finding::missing("libtorch", "not loaded; run `cargo xtask setup`");
    };
    // lib/libtorch_cpu.so, and build-version beside lib.
    let version = library.ancestors().nth(2).map(|folder| folder.join("build-version"));
    let version = version.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    Finding::ok("libtorch", format!("{} at {}", version.trim(), library.display()).trim_start())
}

fn driver() -> Finding {
    let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
    let line = |d: &CudaDevice| {
        let (free, all) = (gib(d.free), gib(d.memory));
        format!("cuda:{} {} ({free:.1} of {all:.1} GiB free)", d.ordinal, d.name)
    };
    match cuda_devices() {
        Ok(devices) if devices.is_empty() => Finding::missing("CUDA driver", "no device"),
        Ok(devices) => {
            let lines: Vec<String> = devices.iter().map(line).collect();
            Finding::ok("CUDA driver", lines.join(", "))
        }
        Err(error) => Finding::missing("CUDA driver", format!("{error}; training runs on the CPU")),
    }
}

fn device(settings: &Settings) -> Finding {
    match device::device(settings.prefetch.device) {
        Ok(device) => Finding::ok("device", device.reason),
        Err(error) => Finding::missing("device", Error::from(error).to_string()).asked(),
    }
}

fn memory() -> Finding {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let kib =
            info.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(1))?;
        kib.parse::<f64>().ok().map(|kib| kib / f64::from(1 << 20))
    };
    match (field("MemAvailable"), field("MemTotal")) {
        (Some(free), Some(all)) => Finding::ok("memory", format!("{free:.1} of {all:.1} GiB free")),
        _ => Finding::missing("memory", "unknown: /proc/meminfo cannot be read"),
    }
}

fn threads(settings: &Settings) -> Finding {
    let threads = share(&settings.run);
    let found = format!("{} to train, {} to fill batches", threads.train, threads.normalize);
    Finding::ok("threads", found)
}

fn database(settings: &Settings) -> Finding {
    let what = "database";
    let kind = settings.source.kind.name();
    let warnings = Warnings::default();
    match millstream_loader::server_version(&settings.source, &warnings) {
        Ok(None) => Finding::ok(what, format!("not needed: source.kind = {kind:?} asks no server")),
        Ok(Some(version)) => {
            let lines = [vec![version], warnings.all()].concat();
            Finding::ok(what, lines.join("; "))
        }
        Err(error) => Finding::missing(what, Error::from(error).to_string()).asked(),
    }
}

fn writable(what: &'static str, dir: &Path) -> Finding {
    // The nearest ancestor that exists is where the directory would be made.
    let existing = dir.ancestors().find(|d| d.is_dir()).unwrap_or(Path::new("."));
    let probe = existing.join(format!(".millstream-probe-{}", std::process::id()));
    match fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)) {
        Ok(()) => Finding::ok(what, dir.display().to_string()),
        Err(error) => Finding::missing(what, format!("{} is not writable: {error}", dir.display())),
    }
}
