//! `millstream doctor`: what is here, what is missing, and what to do about it.

use crate::{settings::Settings, threads::share};
use millstream_loader::SourceKind;
use millstream_prefetch::{choose, cuda_devices};
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    what: &'static str,
    ok: bool,
    found: String,
}

/// Looks at everything; a missing thing is a finding, not an error.
pub(crate) fn examine(settings: &Settings) -> Vec<Finding> {
    let threads = share(&settings.run);
    let mut findings = vec![
        libtorch(),
        driver(),
        device(settings),
        memory(),
        Finding {
            what: "threads",
            ok: true,
            found: format!("{} to train, {} to fill batches", threads.train, threads.normalize),
        },
        database(settings),
    ];
    findings.push(writable("run.dir", &settings.run.dir));
    if !settings.source.cache.is_empty() {
        findings.push(writable("source.cache", Path::new(&settings.source.cache)));
    }
    findings
}

/// The findings as a table.
pub(crate) fn table(findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|f| format!("{:<8} {:<14} {}\n", if f.ok { "ok" } else { "missing" }, f.what, f.found))
        .collect()
}

fn libtorch() -> Finding {
    // What the program really loaded, not what a variable says.
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let library = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.ends_with("/libtorch_cpu.so"));
    let version = library
        .and_then(|path| {
            PathBuf::from(path).parent()?.parent().map(|dir| dir.join("build-version"))
        })
        .and_then(|file| fs::read_to_string(file).ok())
        .map(|version| format!("{} at ", version.trim()))
        .unwrap_or_default();
    match library {
        Some(path) => Finding { what: "libtorch", ok: true, found: format!("{version}{path}") },
        None => Finding {
            what: "libtorch",
            ok: false,
            found: "not loaded; run `cargo xtask setup`".to_owned(),
        },
    }
}

fn driver() -> Finding {
    match cuda_devices() {
        Ok(devices) => {
            let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
            let list: Vec<String> = devices
                .iter()
                .map(|d| {
                    format!(
                        "cuda:{} {} ({:.1} of {:.1} GiB free)",
                        d.ordinal,
                        d.name,
                        gib(d.free),
                        gib(d.memory)
                    )
                })
                .collect();
            Finding {
                what: "CUDA driver",
                ok: !list.is_empty(),
                found: if list.is_empty() { "no device".to_owned() } else { list.join(", ") },
            }
        }
        Err(error) => Finding {
            what: "CUDA driver",
            ok: false,
            found: format!("{error}; training runs on the CPU"),
        },
    }
}

fn device(settings: &Settings) -> Finding {
    match choose(settings.prefetch.device, cuda_devices()) {
        Ok(device) => Finding { what: "device", ok: true, found: device.reason },
        Err(error) => Finding { what: "device", ok: false, found: error.to_string() },
    }
}

fn memory() -> Finding {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / f64::from(1 << 20))
    };
    match (field("MemAvailable"), field("MemTotal")) {
        (Some(free), Some(all)) => {
            Finding { what: "memory", ok: true, found: format!("{free:.1} of {all:.1} GiB free") }
        }
        _ => Finding {
            what: "memory",
            ok: false,
            found: "unknown: /proc/meminfo cannot be read".to_owned(),
        },
    }
}

fn database(settings: &Settings) -> Finding {
    let what = "database";
    let url = match (&settings.source.kind, &settings.source.url) {
        (SourceKind::Postgres, Some(url)) => url,
        (SourceKind::Postgres, None) => {
            return Finding { what, ok: false, found: "source.url is not set".to_owned() };
        }
        _ => {
            return Finding {
                what,
                ok: true,
                found: "not needed: source.kind is not \"postgres\"".to_owned(),
            };
        }
    };
    let version = postgres::Client::connect(url, postgres::NoTls)
        .and_then(|mut client| client.query_one("select version()", &[])?.try_get::<_, String>(0));
    match version {
        Ok(version) => Finding { what, ok: true, found: version },
        Err(error) => {
            Finding { what, ok: false, found: format!("cannot connect: {error}; check source.url") }
        }
    }
}

fn writable(what: &'static str, dir: &Path) -> Finding {
    // The nearest ancestor that exists is where the directory would be made.
    let here = PathBuf::from(".");
    let existing = dir.ancestors().find(|d| d.is_dir()).filter(|d| !d.as_os_str().is_empty());
    let probe = existing.unwrap_or(&here).join(format!(".millstream-probe-{}", std::process::id()));
    match fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)) {
        Ok(()) => Finding { what, ok: true, found: dir.display().to_string() },
        Err(error) => Finding {
            what,
            ok: false,
            found: format!("{} is not writable: {error}", dir.display()),
        },
    }
}
