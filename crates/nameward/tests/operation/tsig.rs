//! TSIG keys that an operator creates, lists and removes while the server runs.

use nameward_testkit::{Setup, TestServer};

fn output_of(server: &TestServer, arguments: &[&str]) -> (Option<i32>, String) {
    let output = server.command(arguments);
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(&String::from_utf8(output.stderr).unwrap());
    (output.status.code(), text)
}

#[test]
fn keys_survive_a_restart_and_secrets_are_shown_only_on_request() {
    let state = tempfile::tempdir().unwrap();
    let start = || {
        let directory = state.path().display();
        let config = format!(
            "[server]\nstate_directory = \"{directory}\"\n\
             [[key]]\nname = \"configured.example\"\nsecret = \"aHVudGVyMg==\"\n"
        );
        Setup::new().config(&config).start()
    };
    let server = start();
    let (code, made) = output_of(
        &server,
        &["tsig", "generate", "Made.example", "hmac-sha512"],
    );
    assert_eq!(code, Some(0), "{made}");
    let secret = made.lines().find_map(|line| line.strip_prefix("secret "));
    let secret = secret.unwrap().to_string();
    // 64 octets in base64.
    assert_eq!(secret.len(), 88, "{made}");
    let imported = [
        "tsig",
        "import",
        "imported.example.",
        "hmac-sha1",
        "c2VjcmV0c2VjcmV0",
    ];
    assert_eq!(output_of(&server, &imported).0, Some(0));
    assert_eq!(
        output_of(&server, &imported).0,
        Some(5),
        "it is there already"
    );
    let wrong = ["tsig", "import", "other.example.", "hmac-sha1", "hunter2*"];
    let (code, printed) = output_of(&server, &wrong);
    assert!(code == Some(6) && !printed.contains("hunter2"), "{printed}");
    assert!(server.stop().success());
    let server = start();
    let (_, listed) = output_of(&server, &["tsig", "list"]);
    assert_eq!(
        listed,
        "configured.example. hmac-sha256 (configuration)\n\
         imported.example. hmac-sha1 (state store)\n\
         made.example. hmac-sha512 (state store)\n"
    );
    let (_, listed) = output_of(&server, &["tsig", "list", "--secrets", "--json"]);
    assert!(
        listed.contains(&secret) && !listed.contains("aHVudGVyMg"),
        "{listed}"
    );
    assert_eq!(
        output_of(&server, &["tsig", "remove", "made.example"]).0,
        Some(0)
    );
    assert_eq!(
        output_of(&server, &["tsig", "remove", "made.example"]).0,
        Some(4)
    );
    assert_eq!(
        output_of(&server, &["tsig", "remove", "configured.example"]).0,
        Some(7)
    );
    let (_, listed) = output_of(&server, &["tsig", "list"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(!server.log().contains(&secret) && !server.log().contains("c2VjcmV0"));
}

#[test]
fn without_a_state_directory_a_key_is_refused_with_the_reason() {
    let server = Setup::new().start();
    let (code, printed) = output_of(&server, &["tsig", "generate", "k.example"]);
    assert!(
        code == Some(7) && printed.contains("state_directory"),
        "{printed}"
    );
    assert_eq!(
        output_of(&server, &["tsig", "list"]),
        (Some(0), String::new())
    );
}
