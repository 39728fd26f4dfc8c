//! Certificates for TLS peers: an authority created for one test, and the certificates that it issues.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use data_encoding::BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, date_time_ymd,
};

/// Whether a certificate can be used today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// From 2020 to 2099.
    Current,
    /// From 2020 to 1 January 2021.
    Expired,
}

/// An authority in a directory, with its certificate in `NAME.pem`.
pub struct Authority {
    directory: PathBuf,
    path: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, as PEM files.
#[derive(Clone, Debug)]
pub struct IssuedCertificate {
    /// The certificate.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// SHA-256 of its public key (SPKI), in base64.
    pub pin: String,
}

impl Authority {
    /// Makes an authority whose files are in a directory.
    pub fn new(directory: &Path, name: &str) -> io::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) =
            (date_time_ymd(2020, 1, 1), date_time_ymd(2099, 1, 1));
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let path = directory.join(format!("{name}.pem"));
        fs::write(&path, certificate.pem())?;
        Ok(Authority {
            directory: directory.into(),
            path,
            issuer: Issuer::new(params, key),
        })
    }

    /// Returns the file with the certificate of the authority.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Issues a certificate for names and addresses, for servers and clients, in `STEM.pem` and `STEM.key`.
    pub fn issue(
        &self,
        stem: &str,
        names: &[&str],
        validity: Validity,
    ) -> io::Result<IssuedCertificate> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, stem);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = match validity {
            Validity::Current => date_time_ymd(2099, 1, 1),
            Validity::Expired => date_time_ymd(2021, 1, 1),
        };
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let issued = params.signed_by(&key, &self.issuer);
        let issued = issued.map_err(io::Error::other)?;
        let hash = digest::digest(&digest::SHA256, &key.subject_public_key_info());
        let files = IssuedCertificate {
            certificate: self.directory.join(format!("{stem}.pem")),
            key: self.directory.join(format!("{stem}.key")),
            pin: BASE64.encode(hash.as_ref()),
        };
        fs::write(&files.certificate, issued.pem())?;
        fs::write(&files.key, key.serialize_pem())?;
        Ok(files)
    }
}
