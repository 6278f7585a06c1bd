//! Where passwords come from: the connection string, `PGPASSWORD`, or the password file.
//!
//! The file is read as libpq documents it. Nothing here prompts, and nothing has a `Debug`: these
//! types hold passwords.

use crate::{connection_string::Parameters, plain_file, server::Environment, target::HostAddress};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Where distributions put the server's socket: a password file calls it `localhost`.
const SOCKET_FOLDERS: [&str; 3] = ["/var/run/postgresql", "/run/postgresql", "/tmp"];

/// The passwords there are.
pub(crate) struct Passwords {
    /// For every host.
    given: Option<Vec<u8>>,
    file: Vec<u8>,
}

impl Passwords {
    /// Finds them; the password file is read only if nothing else gives a password.
    pub(crate) fn find(
        parameters: &Parameters,
        environment: &Environment,
        warn: &dyn Fn(String),
    ) -> Self {
        let in_url = parameters.get("password").map(|password| password.as_bytes().to_vec());
        let given = in_url.or_else(|| environment.password.clone().filter(|p| !p.is_empty()));
        if given.is_some() {
            return Passwords { given, file: Vec::new() };
        }
        let named = parameters.get("passfile").map(PathBuf::from).or(environment.passfile.clone());
        let usual = || environment.home.as_ref().map(|home| home.join(".pgpass"));
        let file = match (&named, usual()) {
            (Some(path), _) => read_file(path, true, warn),
            (None, Some(path)) => read_file(&path, false, warn),
            (None, None) => Vec::new(),
        };
        Passwords { given, file }
    }

    /// The password to show to one host.
    pub(crate) fn of(&self, address: &HostAddress, database: &str, user: &str) -> Option<Vec<u8>> {
        if self.given.is_some() {
            return self.given.clone();
        }
        let port = address.port.to_string();
        let lines = self.file.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#"));
        let field = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).find_map(|line| {
            let rest = names_of(address).find_map(|host| after_match(line, host))?;
            let rest = after_match(rest, &port)?;
            let rest = after_match(rest, database)?;
            after_match(rest, user)
        });
        field.map(unescape).filter(|password| !password.is_empty())
    }
}

/// What the first field of a line may call a host.
fn names_of(address: &HostAddress) -> impl Iterator<Item = &str> {
    let usual = SOCKET_FOLDERS.contains(&address.host.trim_end_matches('/'));
    [Some(address.host.as_str()), usual.then_some("localhost")].into_iter().flatten()
}

/// The bytes of a password file, or none if it is not there or not to be trusted. A file that
/// somebody named and that cannot be read is worth a warning; the usual one may be absent.
fn read_file(path: &Path, named: bool, warn: &dyn Fn(String)) -> Vec<u8> {
    let shown = path.display();
    let ignored = |why: &str| warn(format!("the password file {shown} is ignored: {why}"));
    let read = fs::metadata(path).and_then(|found| {
        if !found.is_file() {
            ignored("it is not a plain file");
            return Ok(Vec::new());
        }
        if found.permissions().mode() & 0o077 != 0 {
            ignored(&format!("group or others may use it; run `chmod 600 {shown}`"));
            return Ok(Vec::new());
        }
        plain_file::read(path)
    });
    read.unwrap_or_else(|error| {
        if named || error.kind() != io::ErrorKind::NotFound {
            ignored(&error.to_string());
        }
        Vec::new()
    })
}

/// What follows the first field of a line, if that field stands for `value`.
fn after_match<'a>(line: &'a [u8], value: &str) -> Option<&'a [u8]> {
    if let Some(rest) = line.strip_prefix(b"*:") {
        return Some(rest);
    }
    let mut rest = line;
    for byte in value.bytes() {
        rest = match rest {
            [b'\\', escaped, after @ ..] if *escaped == byte => after,
            [plain, after @ ..] if *plain == byte && !b":\\".contains(plain) => after,
            _ => return None,
        };
    }
    rest.strip_prefix(b":")
}

/// The last field of a line.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b':' => break,
            b'\\' => value.push(*bytes.next().unwrap_or(byte)),
            _ => value.push(*byte),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn address(host: &str) -> HostAddress {
        HostAddress { host: host.to_owned(), hostaddr: None, port: 5432 }
    }

    fn check(file: &str, host: &str, expected: Option<&str>) {
        let passwords = Passwords { given: None, file: file.as_bytes().to_vec() };
        let found = passwords.of(&address(host), "prices", "ann");
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{file:?} for {host}");
    }

    #[test]
    fn the_first_line_that_fits_gives_the_password() {
        check("db:5432:prices:ann:one", "db", Some("one"));
        check("db:5432:prices:ann:one\r\ndb:*:*:*:two\n", "db", Some("one"));
        check("no line\n\n*:*:*:*:two", "db", Some("two"));
        check("#db:*:*:*:one\n# db\ndb:*:*:*:two", "db", Some("two"));
        check("db:*:*:*:\ndb:*:*:*:two", "db", None);
        check("", "db", None);
    }

    #[test]
    fn every_field_must_fit() {
        for line in ["x:5432:prices:ann:p", "db:1:prices:ann:p", "db:5432:x:ann:p"] {
            check(line, "db", None);
        }
        check("db:5432:prices:bob:p", "db", None);
        check("db:5432:prices:annie:p", "db", None);
        check("db:5432:prices:an:p", "db", None);
        check("db:5432:prices:p", "db", None);
        check("d*:5432:prices:ann:p", "db", None);
    }

    #[test]
    fn colons_and_backslashes_are_escaped() {
        check(r"\:\:1:*:*:*:a\:b\\c:d", "::1", Some(r"a:b\c"));
        check("::1:*:*:*:p", "::1", None);
        check(r"d\b:*:*:*:p", "db", Some("p"));
        check(r"db:*:*:*:p\", "db", Some(r"p\"));
    }

    #[test]
    fn a_socket_in_a_usual_folder_is_localhost() {
        check("localhost:*:*:*:p", "/var/run/postgresql", Some("p"));
        check("localhost:*:*:*:p", "/elsewhere", None);
        check("/elsewhere:*:*:*:p", "/elsewhere", Some("p"));
        check("/tmp:*:*:*:p", "/tmp", Some("p"));
    }

    fn write(dir: &Path, name: &str, mode: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, "*:*:*:*:from-file\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn check_found(url: &str, environment: &Environment, expected: Option<&str>) {
        let passwords = Passwords::find(&Parameters::parse(url).unwrap(), environment, &|_| {});
        let found = passwords.of(&address("db"), "prices", "ann");
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{url}");
    }

    #[test]
    fn the_url_comes_before_the_environment_and_that_before_the_file() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), ".pgpass", 0o600);
        let home = Environment { home: Some(dir.path().to_owned()), ..Environment::default() };
        let password = |text: &str| Environment { password: Some(text.into()), ..home.clone() };
        check_found("postgres://ann:in-url@db", &password("in-environment"), Some("in-url"));
        check_found("postgres://ann@db", &password("in-environment"), Some("in-environment"));
        check_found("postgres://ann:@db", &password(""), Some("from-file"));
        check_found("postgres://ann@db", &home, Some("from-file"));
        check_found("postgres://ann@db", &Environment::default(), None);
    }

    #[test]
    fn a_password_file_that_is_named_replaces_the_usual_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), "passwords", 0o400);
        let passfile = Environment { passfile: Some(path.clone()), ..Environment::default() };
        check_found("postgres://ann@db", &passfile, Some("from-file"));
        check_found("postgres://ann@db?passfile=/no/such/file", &passfile, None);
        let url = format!("postgres://ann@db?passfile={}", path.display());
        check_found(&url, &Environment::default(), Some("from-file"));
    }

    #[test]
    fn a_password_file_that_others_may_use_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o640, 0o604, 0o620, 0o610] {
            let path = write(dir.path(), "passwords", mode);
            assert!(read_file(&path, true, &|_| {}).is_empty(), "{mode:o}");
        }
        let path = write(dir.path(), "passwords", 0o600);
        assert!(!read_file(&path, true, &|_| {}).is_empty());
        assert!(read_file(dir.path(), true, &|_| {}).is_empty());
    }

    fn check_warned(path: &Path, named: bool, expected: Option<&str>) {
        let lines = RefCell::new(Vec::new());
        read_file(path, named, &|line| lines.borrow_mut().push(line));
        let lines = lines.into_inner();
        assert_eq!(lines.len(), usize::from(expected.is_some()), "{lines:?}");
        for (line, expected) in lines.iter().zip(expected) {
            assert!(line.contains(expected) && !line.contains("from-file"), "{line}");
            assert!(line.contains(path.to_str().unwrap()), "{line}");
        }
    }

    #[test]
    fn a_password_file_is_ignored_with_one_warning() {
        let dir = tempfile::tempdir().unwrap();
        check_warned(&write(dir.path(), "passwords", 0o640), false, Some("chmod 600"));
        check_warned(&write(dir.path(), "passwords", 0o600), false, None);
        check_warned(dir.path(), false, Some("not a plain file"));
        check_warned(Path::new("/no/such/file"), true, Some("No such file"));
        check_warned(Path::new("/no/such/file"), false, None);
    }
}
