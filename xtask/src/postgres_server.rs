//! The PostgreSQL server programs that the tests start servers with.
//!
//! Finds them, and on a Debian machine that runs as root installs them. It starts no server: a
//! test starts its own, in a folder of its own.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::prerequisites::{self, Missing};
use crate::{debian, process};

/// Names a server that the tests may use instead of starting one.
const TEST_URL: &str = "MILLSTREAM_TEST_POSTGRES_URL";

/// Where Debian puts the server programs, one folder per version and none on PATH.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";

/// Makes sure that tests can reach or start a PostgreSQL server.
///
/// # Errors
/// [`Missing::Postgres`] when there is none and it cannot be installed from here.
pub(crate) fn provide() -> Result<(), Error> {
    if env::var_os(TEST_URL).is_some() || is_present() {
        return Ok(());
    }
    if !debian::can_install() {
        return Err(Missing::Postgres.into());
    }
    eprintln!("setup: installing PostgreSQL for the tests");
    debian::install("postgresql")?;
    if is_present() { Ok(()) } else { Err(Missing::Postgres.into()) }
}

fn is_present() -> bool {
    find(&prerequisites::search_path(), Path::new(DEBIAN_VERSIONS)).is_some()
}

/// The folder with `initdb` and `postgres`: on the search path, or of Debian's highest version.
fn find(search_path: &OsStr, debian_versions: &Path) -> Option<PathBuf> {
    let on_path = env::split_paths(search_path).find(|folder| holds_server(folder));
    on_path.or_else(|| {
        let versions = fs::read_dir(debian_versions).ok()?;
        versions
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let version: u32 = entry.file_name().to_str()?.parse().ok()?;
                Some((version, entry.path().join("bin")))
            })
            .filter(|(_, folder)| holds_server(folder))
            .max_by_key(|(version, _)| *version)
            .map(|(_, folder)| folder)
    })
}

fn holds_server(folder: &Path) -> bool {
    ["initdb", "postgres"]
        .iter()
        .all(|program| process::find_program(program, folder.as_os_str()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn add(folder: &Path, programs: &[&str]) {
        fs::create_dir_all(folder).unwrap();
        for program in programs {
            let path = folder.join(program);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn the_search_path_wins_then_the_highest_complete_version() {
        let temp = tempfile::tempdir().unwrap();
        let versions = temp.path().join("postgresql");
        let on_path = temp.path().join("bin");
        let check = |expected: Option<&Path>| {
            assert_eq!(find(on_path.as_os_str(), &versions).as_deref(), expected);
        };
        check(None);
        add(&versions.join("9/bin"), &["initdb", "postgres"]);
        add(&versions.join("15/bin"), &["initdb", "postgres"]);
        add(&versions.join("17/bin"), &["psql"]);
        check(Some(&versions.join("15/bin")));
        add(&on_path, &["psql", "initdb"]);
        check(Some(&versions.join("15/bin")));
        add(&on_path, &["postgres"]);
        check(Some(&on_path));
    }
}
