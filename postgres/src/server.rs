//! [`Server`]: where a connection string leads, and how to get there.
//!
//! Settings are checked, passwords found and certificates read before the first connection. Hosts
//! are tried in turn, each once and each with a password of its own. It does not retry, does not
//! pool, and does not know what a connection is for.

use crate::{
    PostgresError,
    connection::{self, CancelToken, ConnectError, Connection},
    connection_string::Parameters,
    error::chain,
    password::Passwords,
    stop::Stop,
    target::{HostAddress, Target, common_config},
    tls::Tls,
};
use postgres::{
    NoTls,
    config::{LoadBalanceHosts, SslMode},
};
use std::{
    env,
    error::Error as _,
    fmt,
    hash::{BuildHasher, RandomState},
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Is told, in a line, what a person should know.
pub type Warn = Arc<dyn Fn(String) + Send + Sync>;

/// A PostgreSQL server to connect to: checked settings, no connection yet.
#[derive(Clone)]
pub struct Server {
    name: String,
    options: String,
    hosts: Vec<Host>,
    tls: Tls,
    connector: MakeRustlsConnect,
    warn: Warn,
    stop: Stop,
}

/// One of the hosts a server may be at.
#[derive(Clone)]
struct Host {
    name: String,
    config: Config,
}

/// What counts besides the connection string. Has no `Debug`: it may hold a password.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    /// `PGPASSWORD`.
    pub(crate) password: Option<Vec<u8>>,
    /// `PGPASSFILE`.
    pub(crate) passfile: Option<PathBuf>,
    /// The home folder.
    pub(crate) home: Option<PathBuf>,
}

impl Environment {
    fn of_process() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        Environment {
            password: set("PGPASSWORD").map(OsStringExt::into_vec),
            passfile: set("PGPASSFILE").map(PathBuf::from),
            home: env::home_dir().filter(|home| !home.as_os_str().is_empty()),
        }
    }
}

impl Server {
    /// Reads a connection string, finds the password and reads root certificates. What a person
    /// should know about the way there, now and later, goes to `warn`.
    ///
    /// # Errors
    /// When the connection string cannot be used, or the certificates it names cannot be read.
    pub fn new(url: &str, warn: Warn) -> Result<Self, PostgresError> {
        Self::with(url, &Environment::of_process(), warn)
    }

    fn with(url: &str, environment: &Environment, warn: Warn) -> Result<Self, PostgresError> {
        let parameters = Parameters::parse(url)?;
        let target = Target::new(&parameters)?;
        let mut tls = Tls::new(&parameters, environment.home.as_deref())?;
        if target.hosts.iter().all(HostAddress::is_socket) {
            tls = Tls::off();
        }
        let passwords = Passwords::find(&parameters, environment, &*warn);
        let common = common_config(&parameters)?;
        let host = |address: &HostAddress| {
            let mut config = common.clone();
            config.host(&address.host).port(address.port);
            config.user(&target.user).dbname(&target.database);
            address.hostaddr.map(|hostaddr| config.hostaddr(hostaddr));
            // The `postgres` crate would ask a socket for TLS too, in vain.
            config.ssl_mode(if address.is_socket() { SslMode::Disable } else { tls.ssl_mode() });
            let password = passwords.of(address, &target.database, &target.user);
            password.map(|password| config.password(password));
            Host { name: target.name_of(std::slice::from_ref(address)), config }
        };
        Ok(Server {
            name: target.name_of(&target.hosts),
            options: parameters.get("options").unwrap_or_default().to_owned(),
            hosts: target.hosts.iter().map(host).collect(),
            connector: tls.connector()?,
            tls,
            warn,
            stop: Stop::default(),
        })
    }

    /// The same server, until the wait for it is called off.
    #[must_use]
    pub fn stopped_by(self, stop: Stop) -> Self {
        Server { stop, ..self }
    }

    /// Does nothing for a while.
    ///
    /// # Errors
    /// [`PostgresError::Stopped`] as soon as the wait is called off.
    pub(crate) fn pause(&self, time: Duration) -> Result<(), PostgresError> {
        match connection::called_within(&self.stop, time) {
            true => Err(PostgresError::Stopped),
            false => Ok(()),
        }
    }

    /// Whether the wait for it has been called off.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.is_called()
    }

    /// The same server, waited for no longer than this.
    #[must_use]
    pub fn with_connect_timeout(mut self, longest: Duration) -> Self {
        for Host { config, .. } in &mut self.hosts {
            let each = config.get_connect_timeout().copied().unwrap_or(longest);
            config.connect_timeout(each.min(longest));
        }
        self
    }

    /// `postgres://user@host:port/database`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says what a person should know.
    pub fn warn(&self, line: String) {
        (self.warn)(line);
    }

    /// Connects to the first host that lets us in.
    ///
    /// # Errors
    /// Why the last of the hosts did not, or [`PostgresError::Stopped`].
    pub fn connect(&self) -> Result<Connection, PostgresError> {
        let mut order: Vec<&Host> = self.hosts.iter().collect();
        if order[0].config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            let random = RandomState::new();
            order.sort_by_cached_key(|host| random.hash_one(&host.name));
        }
        let (last, others) = order.split_last().expect("a server has a host");
        for host in others {
            match self.attempt(host) {
                Ok(client) => return Ok(client),
                Err(PostgresError::Stopped) => return Err(PostgresError::Stopped),
                Err(error) => self.warn(format!("{}; tried the next host", chain(&error))),
            }
        }
        self.attempt(last)
    }

    /// Asks the server to stop what a connection is doing, with the same TLS settings; says whether
    /// the request got there.
    pub fn cancel(&self, token: &CancelToken) -> bool {
        connection::cancel(token, self.connector.clone(), &self.stop)
    }

    /// Whether the connection string's `options` set a server parameter, in one of the forms
    /// `-c name=value`, `-cname=value` and `--name=value`.
    pub(crate) fn sets_option(&self, name: &str) -> bool {
        let mut words = self.options.split_whitespace();
        while let Some(word) = words.next() {
            let setting = match word.strip_prefix("-c").or(word.strip_prefix("--")) {
                Some("") => words.next().unwrap_or_default(),
                Some(setting) => setting,
                None => continue,
            };
            let set = setting.split('=').next().unwrap_or_default();
            if set.replace('-', "_").eq_ignore_ascii_case(name) {
                return true;
            }
        }
        false
    }

    fn attempt(&self, host: &Host) -> Result<Connection, PostgresError> {
        let server = host.name.clone();
        let error = match Connection::connect(&host.config, self.connector.clone(), &self.stop) {
            Ok(connection) => {
                if self.tls.prefers() && connection.is_exposed() {
                    self.warn(format!("the connection to {server} is not encrypted, as it offers no TLS; switch it on there (ssl = on), or set sslmode=disable in source.url if you trust the network"));
                }
                return Ok(connection);
            }
            Err(ConnectError::Stopped) => return Err(PostgresError::Stopped),
            Err(ConnectError::NoAnswer) => return Err(PostgresError::NoAnswer { server }),
            Err(ConnectError::Unreachable(source)) => {
                return Err(PostgresError::Unreachable { server, source });
            }
            Err(ConnectError::Refused(error)) => error,
        };
        let mut plain = host.config.clone();
        plain.ssl_mode(SslMode::Disable);
        if self.tls.allows_plain(&error)
            && let Ok(connection) = Connection::connect(&plain, NoTls, &self.stop)
        {
            self.warn(format!("the connection to {server} is not encrypted, as sslmode=prefer allows, since with encryption it failed: {}", chain(&error)));
            return Ok(connection);
        }
        Err(match self.tls.explain(&server, error) {
            Ok(explained) => explained,
            Err(e) if e.source().is_some_and(|cause| cause.to_string() == "password missing") => {
                PostgresError::PasswordMissing { server }
            }
            Err(source) => PostgresError::Connect { server, source },
        })
    }
}

/// Shows the name alone: the rest may hold a password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.name).finish()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
