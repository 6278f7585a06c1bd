//! [`Server`]: where a connection string leads, and how to get there.
//!
//! Settings are checked, passwords found and certificates read before the first connection. Hosts
//! are tried in turn, each once and each with a password of its own. It does not retry, does not
//! pool, and does not know what a connection is for.

use crate::{
    PostgresError,
    error::chain,
    parameters::{Parameters, pair},
    password::Passwords,
    stop::Stop,
    tls::Tls,
    wire::{self, CancelToken, ConnectError, Wire},
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
    net::IpAddr,
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;
use xxhash_rust::xxh3::xxh3_128;

/// Keys that the `postgres` crate understands as libpq does.
const PASSED_ON: [&str; 11] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "sslnegotiation",
    "target_session_attrs",
];

/// What is set unless the connection string says otherwise. A server that died is noticed within
/// two minutes and not after two hours, and a firewall does not forget a connection on which the
/// server sorts for long before it sends the first row.
const DEFAULTS: [(&str, &str); 5] = [
    ("application_name", "millstream"),
    ("connect_timeout", "10"),
    ("keepalives_idle", "60"),
    ("keepalives_interval", "10"),
    ("keepalives_retries", "6"),
];

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

/// One of the places a server may be at.
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
        if target.addresses.iter().all(Address::is_socket) {
            tls = Tls::off();
        }
        let passwords = Passwords::find(&parameters, environment, &*warn);
        let common = common_config(&parameters)?;
        let host = |address: &Address| {
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
            name: target.name_of(&target.addresses),
            options: parameters.get("options").unwrap_or_default().to_owned(),
            hosts: target.addresses.iter().map(host).collect(),
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

    /// Whether the wait for it has been called off.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.is_called()
    }

    /// The same server, waited for no longer than this.
    #[must_use]
    pub fn in_haste(mut self, longest: Duration) -> Self {
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
    pub fn connect(&self) -> Result<Wire, PostgresError> {
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
        wire::cancel(token, self.connector.clone(), &self.stop)
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

    fn attempt(&self, host: &Host) -> Result<Wire, PostgresError> {
        let server = host.name.clone();
        let error = match Wire::connect(&host.config, self.connector.clone(), &self.stop) {
            Ok(wire) => {
                if self.tls.prefers() && wire.is_exposed() {
                    self.warn(format!("the connection to {server} is not encrypted, as it offers no TLS; switch it on there (ssl = on), or set sslmode=disable in source.url if you trust the network"));
                }
                return Ok(wire);
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
            && let Ok(wire) = Wire::connect(&plain, NoTls, &self.stop)
        {
            self.warn(format!("the connection to {server} is not encrypted, as sslmode=prefer allows, since with encryption it failed: {}", chain(&error)));
            return Ok(wire);
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

/// What a connection string says about the rows to come, without the password: user, hosts, ports
/// and database, and a hash of what else decides which server it is and what names mean there.
///
/// # Errors
/// When the connection string cannot be used.
pub fn server_identity(url: &str) -> Result<String, PostgresError> {
    let parameters = Parameters::parse(url)?;
    let target = Target::new(&parameters)?;
    let name = target.name_of(&target.addresses);
    let others = ["hostaddr", "load_balance_hosts", "options", "target_session_attrs"]
        .iter()
        .filter_map(|key| parameters.get(key).map(|value| pair(key, value)));
    // Options may hold anything, and what is kept on disk should be read by anybody.
    let others = others.collect::<Vec<_>>().join(" ");
    Ok(match others.is_empty() {
        true => name,
        false => format!("{name} {:032x}", xxh3_128(others.as_bytes())),
    })
}

/// A host as the connection string gives it.
pub(crate) struct Address {
    /// A host name, an address, or the folder of a socket.
    pub(crate) host: String,
    /// The address to use instead of looking the name up.
    pub(crate) hostaddr: Option<IpAddr>,
    /// The port.
    pub(crate) port: u16,
}

impl Address {
    fn is_socket(&self) -> bool {
        self.host.starts_with('/') && self.hostaddr.is_none()
    }
}

struct Target {
    user: String,
    database: String,
    addresses: Vec<Address>,
}

impl Target {
    fn new(parameters: &Parameters) -> Result<Self, PostgresError> {
        let refused = |key, expected| PostgresError::UrlValue { key, expected };
        let user = match parameters.get("user") {
            Some(user) => user.to_owned(),
            None => whoami::username()
                .map_err(|_| refused("user", "a name: the system does not say who runs this"))?,
        };
        let database = parameters.get("dbname").unwrap_or(&user).to_owned();
        let list = |key| parameters.get(key).map(|list| list.split(',').collect::<Vec<_>>());
        let (hosts, hostaddrs, ports) = (list("host"), list("hostaddr"), list("port"));
        let names = hosts.as_ref().or(hostaddrs.as_ref());
        let names =
            names.ok_or_else(|| refused("host", "a host name, an address or a socket's folder"))?;
        if hostaddrs.as_ref().is_some_and(|list| list.len() != names.len()) {
            return Err(refused("hostaddr", "as many addresses as hosts"));
        }
        if ports.as_ref().is_some_and(|list| list.len() != 1 && list.len() != names.len()) {
            return Err(refused("port", "one port, or as many as hosts"));
        }
        let address = |(position, host): (usize, &&str)| {
            let of = |list: &Option<Vec<&str>>| {
                let value =
                    list.as_ref().and_then(|list| list.get(position).or(list.first()).copied());
                value.filter(|value| !value.is_empty()).map(str::to_owned)
            };
            let hostaddr = of(&hostaddrs).map(|text| text.parse()).transpose();
            let host = Some(*host).filter(|host| !host.is_empty()).map(str::to_owned);
            let port = of(&ports).map_or(Ok(5432), |text| text.parse());
            Ok(Address {
                host: host.or(of(&hostaddrs)).ok_or_else(|| {
                    refused("host", "a host name, an address or a socket's folder")
                })?,
                hostaddr: hostaddr.map_err(|_| refused("hostaddr", "numeric addresses"))?,
                port: port.map_err(|_| refused("port", "numbers from 1 to 65535"))?,
            })
        };
        let addresses = names.iter().enumerate().map(address).collect::<Result<_, _>>()?;
        Ok(Target { user, database, addresses })
    }

    fn name_of(&self, addresses: &[Address]) -> String {
        let place = |Address { host, port, .. }: &Address| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let places: Vec<String> = addresses.iter().map(place).collect();
        format!("postgres://{}@{}/{}", self.user, places.join(","), self.database)
    }
}

/// What all hosts of a connection string have in common.
fn common_config(parameters: &Parameters) -> Result<Config, PostgresError> {
    let mut text = String::new();
    for key in PASSED_ON {
        // libpq's name for it and the `postgres` crate's.
        let other = if key == "keepalives_retries" { "keepalives_count" } else { key };
        let set = parameters.get(key).or(parameters.get(other));
        let default = DEFAULTS.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let Some(value) = set.or(default) else { continue };
        let pair = pair(key, value);
        if pair.parse::<Config>().is_err() {
            return Err(PostgresError::UrlValue { key, expected: expected(key) });
        }
        text.push_str(&pair);
        text.push(' ');
    }
    let mut config: Config = text.parse().expect("each of the pairs was parsed before");
    // The `postgres` crate would take seconds.
    if let Some(timeout) = parameters.get("tcp_user_timeout") {
        let milliseconds: u64 = timeout.parse().map_err(|_| PostgresError::UrlValue {
            key: "tcp_user_timeout",
            expected: "a number of milliseconds",
        })?;
        if milliseconds > 0 {
            config.tcp_user_timeout(Duration::from_millis(milliseconds));
        }
    }
    Ok(config)
}

/// What a key takes.
fn expected(key: &str) -> &'static str {
    match key {
        "channel_binding" => "disable, prefer or require",
        "keepalives" => "0 or 1",
        "keepalives_retries" => "a number",
        "load_balance_hosts" => "disable or random",
        "sslnegotiation" => "postgres or direct",
        "target_session_attrs" => "any, read-write or read-only",
        _ => "a number of seconds",
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
