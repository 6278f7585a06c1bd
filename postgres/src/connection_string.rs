//! A connection string taken apart: `postgres://` URLs and `key=value` text, read as libpq does.
//!
//! It knows which keys there are, not what their values mean. No error quotes what was read: one
//! character that should have been escaped puts a piece of a password anywhere.

use crate::PostgresError;
use std::collections::BTreeMap;

/// Keys that have a meaning here.
const KEYS: [&str; 22] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "passfile",
    "password",
    "port",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// Keys that libpq has and that are not supported here, with what to do instead.
const UNSUPPORTED: [(&str, &str); 3] = [
    (
        "gssdelegation gssencmode gsslib krbsrvname oauth_client_id oauth_client_secret oauth_issuer \
         oauth_scope scram_client_key scram_server_key sslcert sslcertmode sslkey sslpassword",
        "leave it out, and let the server ask for a password (PGPASSWORD, or ~/.pgpass)",
    ),
    ("service servicefile", "write host, port, user and dbname there instead"),
    (
        "client_encoding fallback_application_name max_protocol_version min_protocol_version \
         replication require_auth requirepeer requiressl ssl_max_protocol_version \
         ssl_min_protocol_version sslcompression sslcrl sslcrldir sslkeylogfile sslsni",
        "leave it out",
    ),
];

/// What a connection string sets; of a key that stands there twice, the last. Has no `Debug`: one
/// of the values is the password.
#[derive(Clone, Default)]
pub(crate) struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    /// Reads either form.
    pub(crate) fn parse(text: &str) -> Result<Self, PostgresError> {
        let mut parameters = Parameters::default();
        match after_scheme(text) {
            Some(rest) => parameters.read_url(rest)?,
            None => parameters.read_pairs(text)?,
        }
        Ok(parameters)
    }

    /// The value of a key. An empty value counts as none.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn set(&mut self, key: &str, value: String) -> Result<(), PostgresError> {
        let Some(key) = KEYS.into_iter().find(|known| *known == key) else {
            return Err(unsupported(key).unwrap_or(UNKNOWN_KEY));
        };
        self.0.insert(key, value);
        Ok(())
    }

    fn read_url(&mut self, text: &str) -> Result<(), PostgresError> {
        // libpq lets a `?` stand in a password, but not a `/`.
        let rest = match text.find(['@', '/']) {
            Some(at) if text[at..].starts_with('@') => {
                let (user, password) = split(&text[..at], ':');
                self.set("user", decode(user)?)?;
                self.set("password", decode(password)?)?;
                &text[at + 1..]
            }
            _ => text,
        };
        let (place, query) = split(rest, '?');
        if place.contains('@') {
            // libpq would call it a part of the host name, and messages would show it.
            return Err(PostgresError::Url {
                problem: "a password with @ or / in it must have them written as %40 and %2F",
            });
        }
        let (hosts, database) = split(place, '/');
        let (mut names, mut ports) = (Vec::new(), Vec::new());
        for host in hosts.split(',') {
            let (name, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
                Some((address, port)) => (address, port.strip_prefix(':').unwrap_or(port)),
                None => split(host, ':'),
            };
            names.push(decode(name)?);
            ports.push(decode(port)?);
        }
        self.set("host", names.join(","))?;
        self.set("port", ports.join(","))?;
        self.set("dbname", decode(database)?)?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or(NOT_A_PAIR)?;
            let key = decode(key)?;
            let exists = KEYS.contains(&key.as_str()) || unsupported(&key).is_some();
            if !exists && is_harmless(&key, place, query) {
                return Err(PostgresError::UrlNoKey { key });
            }
            self.set(&key, decode(value)?)?;
        }
        Ok(())
    }

    fn read_pairs(&mut self, text: &str) -> Result<(), PostgresError> {
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let end = rest.find(|c: char| c == '=' || c.is_whitespace()).ok_or(NOT_A_PAIR)?;
            let (key, value) = rest.split_at(end);
            let value = value.trim_start().strip_prefix('=').ok_or(NOT_A_PAIR)?;
            let (value, after) = unquote(value.trim_start())?;
            self.set(key, value)?;
            rest = after.trim_start();
        }
        Ok(())
    }
}

/// A key of libpq's that is not one of ours.
fn unsupported(key: &str) -> Option<PostgresError> {
    let named = |(keys, instead): (&'static str, _)| {
        let key = keys.split(' ').find(|known| *known == key)?;
        Some(PostgresError::UrlKey { key, instead })
    };
    UNSUPPORTED.into_iter().find_map(named)
}

/// Whether a key of a URL's query can be shown: it is a word, and no piece of a password that has a `?` or
/// `&` of its own. Such a password is one of the query, or has its `@` or the host's port behind it.
fn is_harmless(key: &str, place: &str, query: &str) -> bool {
    let is_word =
        key.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte));
    let has_password =
        query.to_ascii_lowercase().contains("password") || query.contains(['@', '%']);
    let mut hosts = split(place, '/').0.split(',');
    let is_host = |host: &str| {
        host.starts_with('[') || split(host, ':').1.bytes().all(|byte| byte.is_ascii_digit())
    };
    is_word && !has_password && hosts.all(is_host)
}

/// Of what is no key, nothing is quoted.
const UNKNOWN_KEY: PostgresError =
    PostgresError::Url { problem: "it sets a key that does not exist" };

const NOT_A_PAIR: PostgresError = PostgresError::Url { problem: "a key has no = and no value" };

/// A key and its value as `key=value` text.
pub(crate) fn pair(key: &str, value: &str) -> String {
    format!("{key}='{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// The same connection string without its password; `(not shown)` for text that cannot be read,
/// since it might have a password anywhere.
#[must_use]
pub fn without_password(text: &str) -> String {
    let shown = match after_scheme(text) {
        Some(rest) => {
            let scheme = &text[..text.len() - rest.len()];
            // The last @: a password with an @ of its own is refused elsewhere, not shown here.
            let end = rest.find('?').unwrap_or(rest.len());
            let at = rest[..end].rfind('@').or(rest.find('@')).filter(|at| {
                // An @ beyond the ? is the separator only if no / comes before it.
                *at < end || !rest[..*at].contains('/')
            });
            let (credentials, rest) = at.map_or(("", rest), |at| rest.split_at(at));
            let (place, query) = split(rest, '?');
            let is_password =
                |pair: &&str| matches!(decode(split(pair, '=').0).as_deref(), Ok("password"));
            let kept: Vec<&str> = query.split('&').filter(|pair| !is_password(pair)).collect();
            let mark = if kept.iter().all(|pair| pair.is_empty()) { "" } else { "?" };
            format!("{scheme}{}{place}{mark}{}", split(credentials, ':').0, kept.join("&"))
        }
        None => match Parameters::parse(text) {
            Ok(Parameters(mut values)) => {
                values.remove("password");
                let pairs: Vec<_> = values.iter().map(|(key, value)| pair(key, value)).collect();
                pairs.join(" ")
            }
            Err(_) => String::new(),
        },
    };
    match Parameters::parse(&shown) {
        Ok(parameters) if parameters.get("password").is_none() && !shown.is_empty() => shown,
        _ => "(not shown)".to_owned(),
    }
}

/// Whether a text begins like a connection string that is a URL.
#[must_use]
pub fn is_url(text: &str) -> bool {
    after_scheme(text).is_some()
}

/// Takes keys of one's own out of the query of a URL: gives what is left, for
/// [`Server::new`](crate::Server::new), and their values.
///
/// # Errors
/// A value is not encoded as it should be, or a key stands there twice.
pub fn take_keys<const N: usize>(
    url: &str,
    keys: [&str; N],
) -> Result<(String, [Option<String>; N]), PostgresError> {
    let rest = after_scheme(url).unwrap_or(url);
    // As in `read_url`: a `?` may stand in the password.
    let place = match rest.find(['@', '/']) {
        Some(at) if rest[at..].starts_with('@') => &rest[at + 1..],
        _ => rest,
    };
    let mut values = [const { None }; N];
    let Some((place, query)) = place.split_once('?') else { return Ok((url.to_owned(), values)) };
    let mut kept = Vec::new();
    for pair in query.split('&') {
        let (key, value) = split(pair, '=');
        let own = decode(key).ok().and_then(|key| keys.iter().position(|own| *own == key));
        match own {
            Some(own) if values[own].is_some() => {
                return Err(PostgresError::UrlKeyTwice { key: keys[own].to_owned() });
            }
            Some(own) => values[own] = Some(decode(value)?),
            None => kept.push(pair),
        }
    }
    let before = &url[..url.len() - query.len() - 1];
    debug_assert!(before.ends_with(place), "the query is what is behind the place");
    let mark = if kept.iter().all(|pair| pair.is_empty()) { "" } else { "?" };
    Ok((format!("{before}{mark}{}", kept.join("&")), values))
}

/// Schemes are the same in capitals.
fn after_scheme(text: &str) -> Option<&str> {
    ["postgres://", "postgresql://"].into_iter().find_map(|scheme| {
        let (found, rest) = text.split_at_checked(scheme.len())?;
        found.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

/// Both sides of the first separator; without one, all of it and nothing.
fn split(text: &str, separator: char) -> (&str, &str) {
    text.split_once(separator).unwrap_or((text, ""))
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Result<String, PostgresError> {
    const BAD: PostgresError = PostgresError::Url {
        problem: "a % must begin a percent-encoded byte of UTF-8; a % itself is %25",
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or(BAD)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(BAD);
        let byte = digit(digits[0])? * 16 + digit(digits[1])?;
        bytes.push(u8::try_from(byte).expect("two hexadecimal digits are a byte"));
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| BAD)
}

/// A value at the start of `key=value` text, and what follows it.
fn unquote(text: &str) -> Result<(String, &str), PostgresError> {
    let quoted = text.strip_prefix('\'');
    let mut chars = quoted.unwrap_or(text).chars();
    let mut value = String::new();
    loop {
        let rest = chars.as_str();
        match chars.next() {
            None if quoted.is_some() => {
                return Err(PostgresError::Url { problem: "a quoted value does not end" });
            }
            None => return Ok((value, rest)),
            Some('\'') if quoted.is_some() => return Ok((value, chars.as_str())),
            Some(c) if quoted.is_none() && c.is_whitespace() => return Ok((value, rest)),
            Some('\\') => value.extend(chars.next()),
            Some(c) => value.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let parameters = Parameters::parse(text).unwrap();
        let set: Vec<_> =
            KEYS.iter().filter_map(|key| Some((*key, parameters.get(key)?))).collect();
        assert_eq!(set, expected, "{text}");
    }

    #[test]
    fn urls_are_read_as_libpq_reads_them() {
        check(
            "postgresql://ann:hu%40sh@db.example:5433/prices?sslmode=require",
            &[
                ("dbname", "prices"),
                ("host", "db.example"),
                ("password", "hu@sh"),
                ("port", "5433"),
                ("sslmode", "require"),
                ("user", "ann"),
            ],
        );
        check(
            "postgres://a:1,[::1]:2,c/d%20e",
            &[("dbname", "d e"), ("host", "a,::1,c"), ("port", "1,2,")],
        );
        check("postgres://%2Frun%2Fpg", &[("host", "/run/pg")]);
        check(
            "postgres:///d?host=/run/pg&sslrootcert=%2Fa%20b.pem&host=/tmp&options=-c%20a=b",
            &[
                ("dbname", "d"),
                ("host", "/tmp"),
                ("options", "-c a=b"),
                ("sslrootcert", "/a b.pem"),
            ],
        );
        check("postgres://ann:a?b@h", &[("host", "h"), ("password", "a?b"), ("user", "ann")]);
        check("postgres://h/d?user=a@b", &[("dbname", "d"), ("host", "h"), ("user", "a@b")]);
    }

    #[test]
    fn pairs_are_read_as_libpq_reads_them() {
        check(" host = a,b port=1\tport=2 ", &[("host", "a,b"), ("port", "2")]);
        check(
            r"password='it\'s \\ here' user=a\ b sslrootcert = '/a b.pem'",
            &[("password", r"it's \ here"), ("sslrootcert", "/a b.pem"), ("user", "a b")],
        );
        check("host=h user='' user=it's", &[("host", "h"), ("user", "it's")]);
        let value = r"a'b\c d";
        assert_eq!(Parameters::parse(&pair("user", value)).unwrap().get("user"), Some(value));
    }

    fn check_refused(text: &str, expected: &str) {
        let error = Parameters::parse(text).err().unwrap();
        let text = format!("{error} {error:?}");
        assert!(text.contains(expected) && !text.contains("hush"), "{text}");
    }

    #[test]
    fn mistakes_are_named_without_quoting_them() {
        check_refused("postgres://ann:a@hush@h/d", "%40");
        check_refused("postgres://ann:1/hush@h/d", "%2F");
        check_refused("postgres://ann:hush%@h/d", "%25");
        check_refused("postgres://ann:hush%ff@h/d", "UTF-8");
        check_refused("postgres://h/d?hush", "no = and no value");
        check_refused("postgres://h/d?hu.sh=1", "a key that does not exist");
        check_refused("postgres://h:1,[::1]:2/d?a_key=1", "sets the key a_key, which does not");
        check_refused("postgres://u:a/b?hush=1@h/d", "a key that does not exist");
        check_refused("postgres://u:1/b?hush=1&user=a@h/d", "a key that does not exist");
        check_refused("postgres://u:secret?hush=1", "a key that does not exist");
        check_refused("postgres://h/d?password=a&hush=1", "a key that does not exist");
        check_refused("postgres://h/d?p%61ssword=a&hush=1", "a key that does not exist");
        check_refused("postgres://u:2/hush@h/d?hush=1", "%2F");
        check_refused("postgres://h/d?sslcert=hush", "sets sslcert, which is not supported; leave");
        check_refused("host=h sslkey=hush", "ask for a password");
        check_refused("service=hush", "sets service, which is not supported; write host");
        check_refused("host=h sslcrl=hush", "sets sslcrl, which is not supported; leave it out");
        check_refused("host=h password=a hush", "no = and no value");
        check_refused("host=h password=a hush =1", "a key that does not exist");
        check_refused("host=h password='hush", "does not end");
        check_refused("jdbc:postgresql://ann:hush@h/d", "no = and no value");
        check_refused("hush", "expected postgres://user@host:5432/database");
    }

    #[test]
    fn keys_of_ones_own_are_taken_out() {
        let check = |url: &str, left: &str, table: Option<&str>| {
            let (found, [value, _]) = take_keys(url, ["table", "model"]).unwrap();
            assert_eq!((found.as_str(), value.as_deref()), (left, table), "{url}");
        };
        check("postgres://h/d?table=a.b", "postgres://h/d", Some("a.b"));
        check(
            "postgres://u:a?b@h/d?table=%22a%22&sslmode=x",
            "postgres://u:a?b@h/d?sslmode=x",
            Some("\"a\""),
        );
        check("postgres:///d?host=/t&table=a&model=m", "postgres:///d?host=/t", Some("a"));
        check("postgres://u:p?table=x@h/d", "postgres://u:p?table=x@h/d", None);
        check("postgres://h/d?t%61ble=", "postgres://h/d", Some(""));
        check("postgres://h", "postgres://h", None);
        assert!(take_keys("postgres://h/d?table=%zz", ["table"]).is_err());
        let twice = take_keys("postgres://h/d?table=a&t%61ble=a", ["table"]).unwrap_err();
        assert!(twice.to_string().contains("sets table twice"), "{twice}");
        assert!(is_url("Postgres://h") && is_url("POSTGRESQL://h") && !is_url("é"));
        assert!(is_url("postgresql://h") && !is_url("postgres:x") && !is_url("a.csv"));
    }

    fn check_shown(text: &str, expected: &str) {
        assert_eq!(without_password(text), expected, "{text}");
    }

    #[test]
    fn a_password_is_taken_out_of_either_form() {
        check_shown(
            "postgres://ann:hush@h:1/d?sslmode=require",
            "postgres://ann@h:1/d?sslmode=require",
        );
        check_shown("postgresql://ann@h", "postgresql://ann@h");
        check_shown("postgres://h/d?user=a@b", "postgres://h/d?user=a@b");
        check_shown("postgres://h/d?password=hush", "postgres://h/d");
        check_shown("postgres://h/d?p%61ssword=hush&user=a", "postgres://h/d?user=a");
        check_shown("postgres://ann:hu@sh@h/d", "postgres://ann@h/d");
        check_shown("postgres://ann:hu/sh@h/d", "postgres://ann@h/d");
        check_shown("postgres://ann:hu?sh@h/d", "postgres://ann@h/d");
        check_shown("host=h password='hu sh' user=ann", "host='h' user='ann'");
        check_shown("host=h password=hu sh", "(not shown)");
        check_shown("postgres://ann:hush%@h?x", "(not shown)");
        check_shown("ann:hush@h", "(not shown)");
    }
}
