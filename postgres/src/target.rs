//! [`Target`]: where a connection string leads: user, database, hosts, and how to treat a socket.
//!
//! What can be left to `tokio_postgres::Config` is; what the keys of TLS and passwords mean is
//! [`tls`](crate::tls)'s and [`password`](crate::password)'s business.

use crate::{
    PostgresError,
    connection_string::{Parameters, pair},
};
use std::{net::IpAddr, time::Duration};
use tokio_postgres::{Config, config::Host};
use xxhash_rust::xxh3::xxh3_128;

/// Keys of what all hosts have in common that the `postgres` crate understands as libpq does.
const SOCKET_KEYS: [&str; 11] = [
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

/// Where a connection string leads.
pub(crate) struct Target {
    pub(crate) user: String,
    pub(crate) database: String,
    /// To be tried in turn.
    pub(crate) hosts: Vec<HostAddress>,
}

/// A host as the connection string gives it.
pub(crate) struct HostAddress {
    /// A host name, an address, or the folder of a socket.
    pub(crate) host: String,
    /// The address to use instead of looking the name up.
    pub(crate) hostaddr: Option<IpAddr>,
    pub(crate) port: u16,
}

impl HostAddress {
    pub(crate) fn is_socket(&self) -> bool {
        self.host.starts_with('/') && self.hostaddr.is_none()
    }
}

impl Target {
    pub(crate) fn new(parameters: &Parameters) -> Result<Self, PostgresError> {
        let refused = |key, expected| PostgresError::UrlValue { key, expected };
        let no_host = || refused("host", "a host name, an address or a socket's folder");
        let user = match parameters.get("user") {
            Some(user) => user.to_owned(),
            None => whoami::username()
                .map_err(|_| refused("user", "a name: the system does not say who runs this"))?,
        };
        let config = config(parameters, &["host", "hostaddr", "port"])?;
        let (addresses, ports) = (config.get_hostaddrs(), config.get_ports());
        let names: Vec<String> = match config.get_hosts() {
            [] => addresses.iter().map(ToString::to_string).collect(),
            hosts => hosts.iter().map(host_name).collect(),
        };
        if !addresses.is_empty() && addresses.len() != names.len() {
            return Err(refused("hostaddr", "as many addresses as hosts"));
        }
        if names.is_empty() {
            return Err(no_host());
        }
        if ports.len() > 1 && ports.len() != names.len() {
            return Err(refused("port", "one port, or as many as hosts"));
        }
        let host = |(position, name): (usize, String)| -> Result<_, PostgresError> {
            let hostaddr = addresses.get(position).copied();
            let host = Some(name).filter(|name| !name.is_empty());
            Ok(HostAddress {
                host: host.or(hostaddr.map(|address| address.to_string())).ok_or_else(no_host)?,
                hostaddr,
                port: ports.get(position).or(ports.first()).copied().unwrap_or(5432),
            })
        };
        let hosts = names.into_iter().enumerate().map(host).collect::<Result<_, _>>()?;
        let database = parameters.get("dbname").unwrap_or(&user).to_owned();
        Ok(Target { user, database, hosts })
    }

    /// `postgres://user@host:port,host:port/database`.
    pub(crate) fn name_of(&self, hosts: &[HostAddress]) -> String {
        let name = |HostAddress { host, port, .. }: &HostAddress| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let names: Vec<String> = hosts.iter().map(name).collect();
        format!("postgres://{}@{}/{}", self.user, names.join(","), self.database)
    }
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => folder.display().to_string(),
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
    let name = target.name_of(&target.hosts);
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

/// What all hosts of a connection string have in common.
pub(crate) fn common_config(parameters: &Parameters) -> Result<Config, PostgresError> {
    let mut config = config(parameters, &SOCKET_KEYS)?;
    // The `postgres` crate would take seconds.
    if let Some(timeout) = parameters.get("tcp_user_timeout") {
        let key = "tcp_user_timeout";
        let milliseconds: u64 = timeout
            .parse()
            .map_err(|_| PostgresError::UrlValue { key, expected: "a number of milliseconds" })?;
        if milliseconds > 0 {
            config.tcp_user_timeout(Duration::from_millis(milliseconds));
        }
    }
    Ok(config)
}

/// What `tokio_postgres` makes of some of the keys, and of their defaults.
fn config(parameters: &Parameters, keys: &[&'static str]) -> Result<Config, PostgresError> {
    let mut text = String::new();
    for &key in keys {
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
    Ok(text.parse().expect("each of the pairs was parsed before"))
}

/// What a key takes.
fn expected(key: &str) -> &'static str {
    match key {
        "channel_binding" => "disable, prefer or require",
        "hostaddr" => "numeric addresses",
        "keepalives" => "0 or 1",
        "keepalives_retries" => "a number",
        "load_balance_hosts" => "disable or random",
        "port" => "numbers from 1 to 65535",
        "sslnegotiation" => "postgres or direct",
        "target_session_attrs" => "any, read-write or read-only",
        _ => "a number of seconds",
    }
}
