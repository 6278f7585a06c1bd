//! What `sslmode` and `sslrootcert` ask for, by rustls: encrypted or not, and whom to believe.
//!
//! Follows libpq, with these differences. Where there is no `~/.postgresql/root.crt`, `verify-full`
//! uses the system's authorities. A host name must be in the certificate's `subjectAltName`; its
//! common name is not looked at. A certificate must be of X.509 version 3, and one that is checked
//! must not be its own authority. There are no client certificates and no revocation lists.

use crate::{PostgresError, connection_string::Parameters, plain_file};
use postgres::config::SslMode;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use std::{
    env,
    error::Error as _,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How much a connection must prove, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The authorities a certificate is checked by.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Roots {
    System,
    File(PathBuf),
}

/// The TLS settings of a server, checked. No file has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    mode: Mode,
    roots: Option<Roots>,
}

impl Tls {
    /// Reads `sslmode` and `sslrootcert`; `home` is where `.postgresql/root.crt` may be.
    pub(crate) fn new(parameters: &Parameters, home: Option<&Path>) -> Result<Self, PostgresError> {
        let refused = |key, expected| Err(PostgresError::UrlValue { key, expected });
        let roots = parameters.get("sslrootcert").map(|name| match name {
            "system" => Roots::System,
            path => Roots::File(path.into()),
        });
        let mode = match parameters.get("sslmode") {
            None if roots == Some(Roots::System) => Mode::VerifyFull,
            None | Some("prefer") => Mode::Prefer,
            Some("disable") => Mode::Disable,
            Some("require") => Mode::Require,
            Some("verify-ca") => Mode::VerifyCa,
            Some("verify-full") => Mode::VerifyFull,
            Some(_) => {
                return refused("sslmode", "disable, prefer, require, verify-ca or verify-full");
            }
        };
        if parameters.get("sslnegotiation") == Some("direct") && mode < Mode::Require {
            return refused("sslnegotiation", "postgres, or sslmode=require or stricter beside it");
        }
        match roots {
            // Anybody can have a certificate for some host from a public authority.
            Some(Roots::System) if mode != Mode::VerifyFull => {
                return refused(
                    "sslrootcert",
                    "a file of certificates, or sslmode=verify-full beside it",
                );
            }
            Some(_) if mode < Mode::Require => {
                return refused(
                    "sslrootcert",
                    "sslmode=verify-full beside it, or no certificate is checked",
                );
            }
            _ => {}
        }
        let usual = home.map(|home| home.join(".postgresql/root.crt")).filter(|path| path.exists());
        let roots = match mode {
            Mode::Disable | Mode::Prefer => None,
            _ => roots.or(usual.map(Roots::File)),
        };
        // What libpq calls backward compatibility: a root certificate that is there is used.
        let mode = if mode == Mode::Require && roots.is_some() { Mode::VerifyCa } else { mode };
        match (mode, roots) {
            (Mode::VerifyCa, None) => {
                refused("sslmode", "sslrootcert=<file> beside it: the authority to check by")
            }
            (Mode::VerifyFull, None) => Ok(Tls { mode, roots: Some(Roots::System) }),
            (mode, roots) => Ok(Tls { mode, roots }),
        }
    }

    /// For servers that are reached through a socket file only.
    pub(crate) fn off() -> Self {
        Tls { mode: Mode::Disable, roots: None }
    }

    /// Whether a connection without encryption will do, but is not what was hoped for.
    pub(crate) fn prefers(&self) -> bool {
        self.mode == Mode::Prefer
    }

    /// What the `postgres` crate must do about it.
    pub(crate) fn ssl_mode(&self) -> SslMode {
        match self.mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// Reads the authorities and makes what connections are encrypted with.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect, PostgresError> {
        // The provider is named, so that no other part of the process can change it.
        let provider = Arc::new(crypto::ring::default_provider());
        let roots = self.roots.as_ref().map(Roots::read).transpose()?;
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring has the cipher suites of TLS 1.2 and 1.3");
        let builder = match roots {
            Some(roots) if self.mode == Mode::VerifyFull => builder.with_root_certificates(roots),
            roots => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AnyName::new(&provider, roots))),
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(MakeRustlsConnect::new(config))
    }

    /// Whether libpq would now try without encryption: `prefer`, and the encrypted attempt failed
    /// in the handshake or because `pg_hba.conf` has no entry for it.
    pub(crate) fn allows_plain(&self, error: &postgres::Error) -> bool {
        use postgres::error::SqlState;
        self.mode == Mode::Prefer
            && (is_handshake(error)
                || error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION))
    }

    /// Says what to do about an error that TLS is the reason of; hands back any other.
    pub(crate) fn explain(
        &self,
        server: &str,
        source: postgres::Error,
    ) -> Result<PostgresError, postgres::Error> {
        if !is_handshake(&source) {
            return Err(source);
        }
        let server = server.to_owned();
        if source.source().is_some_and(|cause| cause.to_string() == "server does not support TLS") {
            return Ok(PostgresError::ServerWithoutTls { server });
        }
        let cause = source.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        let cause = cause.and_then(io::Error::get_ref).and_then(|cause| cause.downcast_ref());
        Ok(match cause {
            Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                let roots = self.roots.as_ref().map(Roots::name).unwrap_or_default();
                PostgresError::UnknownAuthority { server, roots, source }
            }
            Some(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => PostgresError::CertificateName { server, source },
            _ => PostgresError::Handshake { server, source },
        })
    }
}

/// The `postgres` crate keeps the kind of its errors to itself, but not what it prints.
fn is_handshake(error: &postgres::Error) -> bool {
    error.to_string() == "error performing TLS handshake"
}

impl Roots {
    fn name(&self) -> String {
        match self {
            Roots::System => "the system's certificate store".to_owned(),
            Roots::File(path) => path.display().to_string(),
        }
    }

    fn read(&self) -> Result<RootCertStore, PostgresError> {
        let refused = |source| PostgresError::RootCertificates { place: self.name(), source };
        let broken = |message: &str| refused(io::Error::new(io::ErrorKind::InvalidData, message));
        let found: Vec<CertificateDer<'_>> = match self {
            // What else is in the store, links that lead nowhere for one, is not our business.
            Roots::System => {
                // The store would wait for a pipe of that name.
                let named = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
                if let Some(error) = named.and_then(|path| plain_file::open(&path).err())
                    && plain_file::is_refused(&error)
                {
                    return Err(refused(error));
                }
                rustls_native_certs::load_native_certs().certs
            }
            Roots::File(path) => {
                let text = plain_file::read(path).map_err(refused)?;
                CertificateDer::pem_slice_iter(&text)
                    .collect::<Result<_, _>>()
                    .map_err(|_| broken("it is not a whole PEM file"))?
            }
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found);
        if roots.is_empty() {
            return Err(broken("it has no certificate in it"));
        }
        Ok(roots)
    }
}

/// Accepts a certificate for any host: signed by one of the authorities or, without any, by
/// whomever.
#[derive(Debug)]
struct AnyName {
    roots: Option<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyName {
    fn new(provider: &CryptoProvider, roots: Option<RootCertStore>) -> Self {
        AnyName { roots, algorithms: provider.signature_verification_algorithms }
    }
}

/// The signatures of the handshake are checked in every mode: without that, channel binding would
/// not prove that the other side has the key of its certificate.
impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                intermediates,
                now,
                algorithms,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tls(settings: &str, home: Option<&Path>) -> Result<Tls, PostgresError> {
        Tls::new(&Parameters::parse(&format!("host=h {settings}")).unwrap(), home)
    }

    fn check(settings: &str, home: Option<&Path>, mode: Mode, roots: Option<&str>) {
        let tls = tls(settings, home).unwrap();
        let found = tls.roots.map(|roots| roots.name());
        assert_eq!((tls.mode, found.as_deref()), (mode, roots), "{settings}");
    }

    #[test]
    fn modes_are_those_of_libpq() {
        let system = Some("the system's certificate store");
        check("", None, Mode::Prefer, None);
        check("sslmode=disable", None, Mode::Disable, None);
        check("sslmode=require", None, Mode::Require, None);
        check("sslmode=require sslrootcert=a", None, Mode::VerifyCa, Some("a"));
        check("sslmode=verify-ca sslrootcert=a", None, Mode::VerifyCa, Some("a"));
        check("sslmode=verify-full sslrootcert=a", None, Mode::VerifyFull, Some("a"));
        check("sslmode=verify-full", None, Mode::VerifyFull, system);
        check("sslrootcert=system", None, Mode::VerifyFull, system);
    }

    #[test]
    fn a_root_certificate_in_the_home_folder_is_used() {
        let home = tempfile::tempdir().unwrap();
        check("sslmode=require", Some(home.path()), Mode::Require, None);
        let file = home.path().join(".postgresql/root.crt");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        check("sslmode=require", Some(home.path()), Mode::VerifyCa, file.to_str());
        check("sslmode=verify-full", Some(home.path()), Mode::VerifyFull, file.to_str());
        check("sslmode=prefer", Some(home.path()), Mode::Prefer, None);
        check("sslmode=verify-full sslrootcert=a", Some(home.path()), Mode::VerifyFull, Some("a"));
    }

    fn check_refused(settings: &str, expected: &str) {
        let error = tls(settings, None).and_then(|tls| tls.connector().map(|_| ())).unwrap_err();
        let text =
            format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default());
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn what_checks_nothing_is_refused() {
        check_refused(
            "sslmode=allow",
            "source.url sets sslmode to what cannot be used; expected disable, prefer, require, verify-ca or verify-full",
        );
        check_refused("sslrootcert=a", "expected sslmode=verify-full beside it");
        check_refused("sslmode=disable sslrootcert=a", "expected sslmode=verify-full beside it");
        check_refused("sslmode=require sslrootcert=system", "sslmode=verify-full beside it");
        check_refused("sslmode=verify-ca", "expected sslrootcert=<file> beside it");
        check_refused("sslnegotiation=direct", "sslmode=require or stricter beside it");
    }

    #[test]
    fn a_file_without_certificates_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("root.pem");
        let settings = format!("sslmode=verify-full sslrootcert={}", path.display());
        check_refused(&settings, "root.pem");
        check_refused(&settings, "set sslrootcert in source.url to a PEM file");
        check_refused(&settings, "No such file");
        fs::write(&path, "no certificate").unwrap();
        check_refused(&settings, "it has no certificate in it");
        fs::write(&path, "-----BEGIN CERTIFICATE-----\nAAAA").unwrap();
        check_refused(&settings, "it is not a whole PEM file");
    }
}
