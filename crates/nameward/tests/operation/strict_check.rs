//! `nameward check` refuses everything that `nameward serve` refuses, with the same messages.

use std::{fs, process::Command};

use nameward_testkit::{Setup, server::binary};

#[test]
fn check_refuses_each_configuration_that_a_server_does_not_start_with() {
    for (text, expected) in [
        (
            "[web]\npassword = \"$scrypt$ln=10,p=1,r=8$abc\"\n",
            "web.password",
        ),
        ("[web]\napi_key = \"$scrypt$\"\n", "web.api_key"),
        (
            "[[zone]]\nname = \"a.test\"\nkind = \"secondary\"\nprimaries = [{ address = \"192.0.2.1\" }]\n",
            "server.state_directory",
        ),
        (
            "[[zone]]\nname = \"a.test\"\nprimaries = [{ address = \"192.0.2.1\" }]\n",
            "zone a.test.: primaries are set but kind is not",
        ),
        ("[server]\nuser = \"nobody-of-this-name\"\n", "server.user"),
        (
            "[security_poll]\nsuffix = \"a..b\"\n",
            "security_poll.suffix",
        ),
        (
            "[server]\nlisten = [\"127.0.0.1:5399\"]\n[recursor]\naddress = \"127.0.0.1:5399\"\n",
            "recursor.address",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nameward.toml");
        fs::write(&path, text).unwrap();
        let output = Command::new(binary())
            .arg("check")
            .arg("--config")
            .arg(&path)
            .env_remove("STATE_DIRECTORY")
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}: {said}");
        assert!(said.contains(expected), "{text}: {said}");
        let listen = text.contains("listen");
        let mut setup = Setup::new().config(text);
        if listen {
            setup = setup.listen(&[]);
        }
        let failure = match setup.try_start() {
            Ok(_) => panic!("a server starts with {text}"),
            Err(failure) => failure.to_string(),
        };
        let line = said.lines().find(|line| line.contains(expected)).unwrap();
        assert!(
            failure.contains(line.trim_start_matches("nameward: ")),
            "{line}: {failure}"
        );
    }
}
