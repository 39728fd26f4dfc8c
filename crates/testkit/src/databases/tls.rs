//! TLS for a database: an authority and a certificate for 127.0.0.1, created just for it.

use super::{Database, DatabaseKind, check, user};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

impl Database {
    /// Enables encrypted connections; returns the certificate of the authority. Plain connections still work.
    pub fn enable_tls(&mut self) -> io::Result<PathBuf> {
        let directory = self.directory.path().to_path_buf();
        make_certificates(&directory)?;
        let (certificate, key) = (directory.join("server.pem"), directory.join("server.key"));
        check(
            Command::new("chown")
                .arg(user(self.kind))
                .args([&certificate, &key]),
        )?;
        check(Command::new("chmod").arg("600").arg(&key))?;
        let (certificate, key) = (certificate.display(), key.display());
        match self.kind {
            DatabaseKind::Postgres => {
                let arguments = [
                    "ssl=on".to_string(),
                    format!("ssl_cert_file={certificate}"),
                    format!("ssl_key_file={key}"),
                ];
                let arguments = arguments.into_iter();
                self.arguments = arguments.flat_map(|a| ["-c".into(), a]).collect();
            }
            DatabaseKind::Mariadb => {
                self.arguments = vec![
                    format!("--ssl-cert={certificate}"),
                    format!("--ssl-key={key}"),
                ];
            }
        }
        self.restart()?;
        Ok(directory.join("authority.pem"))
    }

    /// Demands a certificate of the authority from clients that connect by TCP, after [`Database::enable_tls`]. Returns a URL for
    /// the account that it is for.
    pub fn demand_certificates(&mut self) -> io::Result<String> {
        let directory = self.directory.path().to_path_buf();
        let authority = directory.join("authority.pem");
        match self.kind {
            DatabaseKind::Postgres => {
                // The common name of a certificate is the account.
                let access = "local all all trust\nhostssl all all 127.0.0.1/32 cert\n";
                std::fs::write(self.data().join("pg_hba.conf"), access)?;
                let setting = format!("ssl_ca_file={}", authority.display());
                self.arguments.extend(["-c".into(), setting]);
            }
            DatabaseKind::Mariadb => {
                let account =
                    "CREATE USER certified@'%' REQUIRE X509; GRANT ALL ON *.* TO certified@'%'";
                self.run(account)?;
                let setting = format!("--ssl-ca={}", authority.display());
                self.arguments.push(setting);
            }
        }
        self.restart()?;
        Ok(match self.kind {
            DatabaseKind::Postgres => format!("postgres://postgres@{}/pdns", self.address),
            DatabaseKind::Mariadb => format!("mysql://certified@{}/pdns", self.address),
        })
    }

    /// Makes a client certificate, signed by the authority or by itself; returns it and its key.
    pub fn client_certificate(&self, is_signed: bool) -> io::Result<(PathBuf, PathBuf)> {
        let directory = self.directory.path();
        let name = if is_signed { "client" } else { "stranger" };
        let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
        let subject = "/CN=postgres";
        if is_signed {
            openssl(
                directory,
                &format!("req {KEY} -keyout {key} -out client.csr -subj {subject}"),
            )?;
            let sign =
                "x509 -req -in client.csr -CA authority.pem -CAkey authority.key -CAcreateserial";
            // With an extension it has version 3, which TLS libraries demand.
            std::fs::write(directory.join("use"), "extendedKeyUsage=clientAuth\n")?;
            let sign = format!("{sign} -extfile use -out {certificate} -days 2");
            openssl(directory, &sign)?;
        } else {
            let own = format!("req -x509 {KEY} -keyout {key} -out {certificate} -subj {subject}");
            openssl(directory, &format!("{own} -days 2"))?;
        }
        Ok((directory.join(certificate), directory.join(key)))
    }
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

fn openssl(directory: &Path, arguments: &str) -> io::Result<()> {
    let mut command = Command::new("openssl");
    check(command.current_dir(directory).args(arguments.split(' ')))
}

fn make_certificates(directory: &Path) -> io::Result<()> {
    let openssl = |arguments: &str| openssl(directory, arguments);
    openssl(&format!(
        "req -x509 {KEY} -keyout authority.key -out authority.pem -subj /CN=authority -days 2"
    ))?;
    openssl(&format!(
        "req {KEY} -keyout server.key -out server.csr -subj /CN=127.0.0.1"
    ))?;
    std::fs::write(directory.join("names"), "subjectAltName=IP:127.0.0.1\n")?;
    openssl(
        "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -extfile names \
         -out server.pem -days 2",
    )
}
