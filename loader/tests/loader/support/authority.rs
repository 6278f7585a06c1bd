//! Certificates for test servers, made for the occasion.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// What a server proves its name with, as PEM.
pub(crate) struct Identity {
    /// The certificate.
    pub(crate) certificate: String,
    /// Its private key.
    pub(crate) key: String,
}

impl Authority {
    /// Makes one.
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), certificate }
    }

    /// A certificate for a host.
    pub(crate) fn identity(&self, host: &str) -> Identity {
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// Writes the certificate of the authority itself.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &self.certificate).unwrap();
        path
    }
}
