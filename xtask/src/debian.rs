//! Installing a package of Debian's, where that can be done without asking anybody.

use std::fs;
use std::process::Command;

use crate::error::Error;
use crate::{prerequisites, process};

/// Whether this process may install packages: it runs as root, on a machine with apt-get.
pub(crate) fn can_install() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // /proc/self belongs to the effective user of this process.
    let as_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    as_root && process::find_program("apt-get", &prerequisites::search_path()).is_some()
}

/// Installs a package; what apt-get prints goes to stderr.
///
/// # Errors
/// When apt-get fails.
pub(crate) fn install(package: &str) -> Result<(), Error> {
    for mut command in commands(package) {
        process::run_on_stderr(&mut command)?;
    }
    Ok(())
}

fn commands(package: &str) -> [Command; 2] {
    let apt_get = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let mut update = apt_get();
    update.arg("update");
    let mut install = apt_get();
    install.args(["install", "--yes", "--no-install-recommends", package]);
    [update, install]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_is_updated_first_and_asks_nothing() {
        let [update, install] = commands("postgresql");
        assert_eq!(process::line(&update), "DEBIAN_FRONTEND=noninteractive apt-get update");
        assert_eq!(
            process::line(&install),
            "DEBIAN_FRONTEND=noninteractive \
             apt-get install --yes --no-install-recommends postgresql"
        );
    }
}
