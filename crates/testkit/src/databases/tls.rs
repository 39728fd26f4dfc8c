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
}

fn make_certificates(directory: &Path) -> io::Result<()> {
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        check(command.current_dir(directory).args(arguments.split(' ')))
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "req -x509 {key} -keyout authority.key -out authority.pem -subj /CN=authority -days 2"
    ))?;
    openssl(&format!(
        "req {key} -keyout server.key -out server.csr -subj /CN=127.0.0.1"
    ))?;
    std::fs::write(directory.join("names"), "subjectAltName=IP:127.0.0.1\n")?;
    openssl(
        "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -extfile names \
         -out server.pem -days 2",
    )
}
