//! stub until h1
use crate::{LoadError, SourceSettings};
use ::postgres::{CancelToken, Client, Config, NoTls, config::Host};

#[derive(Clone)]
pub(crate) struct Server {
    config: Config,
    name: String,
}

impl Server {
    pub(crate) fn new(settings: &SourceSettings) -> Result<Server, LoadError> {
        let Some(url) = &settings.url else {
            return Err(LoadError::MissingSetting {
                kind: settings.kind.name(),
                key: "url",
                expected: "postgres://user@host:5432/database",
            });
        };
        let config: Config = url.parse().map_err(|_| LoadError::Url)?;
        let name = describe(&config);
        Ok(Server { config, name })
    }
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
    pub(crate) fn connect(&self) -> Result<Client, LoadError> {
        self.config
            .connect(NoTls)
            .map_err(|source| LoadError::Connect { server: self.name.clone(), source })
    }
    pub(crate) fn cancel(&self, token: &CancelToken) -> Result<(), ::postgres::Error> {
        token.cancel_query(NoTls)
    }
    pub(crate) fn sets_option(&self, name: &str) -> bool {
        self.config.get_options().is_some_and(|o| o.contains(name))
    }
}

fn describe(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(position, host)| {
            let host = match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            };
            // One port may stand for all hosts.
            let port = ports.get(position).or(ports.first()).copied().unwrap_or(5432);
            format!("{host}:{port}")
        })
        .collect();
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    format!("postgres://{user}@{}/{database}", hosts.join(","))
}
