//! [`available_memory`]: what a program can still allocate before somebody kills it or refuses.
//!
//! The least of what the machine has (`/proc/meminfo`), what the control groups of this process
//! leave it (versions 2 and 1, every level: a limit may stand above a container) and what its own
//! limits do (`ulimit -v`, `ulimit -d`). A setting that asks for more is refused in one line before
//! anything is allocated. It is an estimate for that one purpose: others allocate too.

use std::{fs, path::Path};

/// Bytes that this process can still have; `None` where the system does not say.
///
/// ```
/// assert!(millstream_data::available_memory().is_none_or(|bytes| bytes > 1 << 20));
/// ```
#[must_use]
pub fn available_memory() -> Option<u64> {
    available(Path::new("/"))
}

/// As [`available_memory`], with the system's files below a folder.
fn available(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let machine = machine(&read("proc/meminfo"));
    let own = own_limits(&read("proc/self/limits"), &read("proc/self/status"));
    let memberships = read("proc/self/cgroup");
    let mounts = read("proc/self/mountinfo");
    let groups = mounts
        .lines()
        .filter_map(|line| Hierarchy::of_mount(line, &memberships))
        .filter_map(|hierarchy| hierarchy.left(root));
    groups.chain(machine).chain(own).min()
}

/// What the machine can give without killing anybody.
fn machine(meminfo: &str) -> Option<u64> {
    let available = kilobytes(meminfo, "MemAvailable:")?;
    Some(available.saturating_add(kilobytes(meminfo, "SwapFree:").unwrap_or(0)))
}

/// What the limits of the process itself leave.
fn own_limits(limits: &str, status: &str) -> Option<u64> {
    let left = |limit: &str, used: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit))?;
        // `unlimited` is no number.
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(limit.saturating_sub(kilobytes(status, used)?))
    };
    let address_space = left("Max address space", "VmSize:");
    address_space.into_iter().chain(left("Max data size", "VmData:")).min()
}

/// The value of a line like `MemAvailable:   24001234 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// A mounted hierarchy of control groups that counts memory, and our place in it.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy<'a> {
    /// Where it is mounted, without the leading slash.
    mount: &'a str,
    /// The names of the groups from the mount down to ours.
    groups: Vec<&'a str>,
    files: &'static Files,
}

/// What a version of control groups calls its files, and the pages that it can take back.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    limit: &'static str,
    used: &'static str,
    cached: [&'static str; 2],
}

const VERSION_2: Files = Files {
    limit: "memory.max",
    used: "memory.current",
    cached: ["inactive_file ", "active_file "],
};

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: ["total_inactive_file ", "total_active_file "],
};

impl<'a> Hierarchy<'a> {
    /// Reads a line of `/proc/self/mountinfo` (see proc(5)); `None` for any other mount.
    fn of_mount(line: &'a str, memberships: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (top, mount) = (place.next()?, place.next()?.trim_start_matches('/'));
        let mut kind = kind.split(' ');
        let (version, options) = (kind.next()?, kind.nth(1)?);
        let files = match version {
            "cgroup2" => &VERSION_2,
            "cgroup" if options.split(',').any(|option| option == "memory") => &VERSION_1,
            _ => return None,
        };
        let ours = memberships.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_ours = match version {
                "cgroup2" => controllers.is_empty(),
                _ => controllers.split(',').any(|name| name == "memory"),
            };
            is_ours.then_some(path)
        })?;
        // In a container the path may be the host's, of which only the part from `top` is mounted.
        let below = ours.strip_prefix(top).unwrap_or_default();
        let groups = below.split('/').filter(|name| !name.is_empty()).collect();
        Some(Hierarchy { mount, groups, files })
    }

    /// What the tightest of the groups leaves. Cached files are not counted: they go when memory is
    /// wanted.
    fn left(&self, root: &Path) -> Option<u64> {
        let mut folder = root.join(self.mount);
        let mut least = left_in(&folder, self.files);
        for group in &self.groups {
            folder.push(group);
            least = least.into_iter().chain(left_in(&folder, self.files)).min();
        }
        least
    }
}

/// What one group leaves; `None` where it has no limit.
fn left_in(folder: &Path, files: &Files) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    // `max` is no number; version 1 says "no limit" by one that no machine has.
    let limit: u64 = read(files.limit)?.trim().parse().ok()?;
    let used: u64 = read(files.used)?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let cached: u64 = files
        .cached
        .iter()
        .filter_map(|name| stat.lines().find_map(|line| line.strip_prefix(name)))
        .filter_map(|bytes| bytes.trim().parse::<u64>().ok())
        .sum();
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal: 4000 kB\nMemAvailable:    3000 kB\nSwapFree:  500 kB\n";

    /// Writes files below a folder and asks what there is.
    fn check(files: &[(&str, &str)], expected: Option<u64>) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(available(root.path()), expected, "{files:?}");
    }

    #[test]
    fn the_machine_alone_has_what_it_has() {
        check(&[], None);
        check(&[("proc/meminfo", MEMINFO)], Some(3500 << 10));
    }

    #[test]
    fn the_tightest_group_of_version_2_counts_without_its_cached_files() {
        let mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        check(
            &[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "0::/a/b\n"),
                ("proc/self/mountinfo", mount),
                ("sys/fs/cgroup/a/memory.max", "1000000\n"),
                ("sys/fs/cgroup/a/memory.current", "700000\n"),
                ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 100000\nactive_file 7\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/b/memory.current", "700000\n"),
            ],
            Some(400_007),
        );
    }

    #[test]
    fn a_container_sees_its_group_of_version_1_as_the_top() {
        let mounts = "24 23 0:21 / /sys rw - sysfs sysfs rw\n\
             31 23 0:27 /host/box /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        check(
            &[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "3:cpu:/else\n2:memory:/host/box\n0::/\n"),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "4000\n"),
                ("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 5000\n"),
            ],
            Some(9000),
        );
    }

    #[test]
    fn limits_of_the_process_count() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
             Max data size             unlimited            unlimited            bytes\n\
             Max address space         2048000              unlimited            bytes\n";
        check(
            &[
                ("proc/meminfo", MEMINFO),
                ("proc/self/limits", limits),
                ("proc/self/status", "VmSize:\t 1000 kB\nVmData:\t 10 kB\n"),
            ],
            Some(2_048_000 - 1_024_000),
        );
    }

    #[test]
    fn this_machine_says() {
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
