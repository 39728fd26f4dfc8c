//! Errors with their places, and bounds.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "one story from start to end")]
fn errors_say_where_and_what_was_expected() {
    for (text, expected) in [
        (
            "zone \"a\" {\n type master\n}",
            "3:1: error: expected ';' before '}'",
        ),
        (
            "zone \"a\" {\n type master;\n",
            "1:10: error: unclosed '{': expected '}'",
        ),
        (
            "zone a { type master; file \"a\"; }\nzone b { };",
            "2:1: error: expected ';' after '}', found 'zone'",
        ),
        (
            "zone a { type master; file \"a; };",
            "1:28: error: unterminated string: expected '\"'",
        ),
        (
            "\n  /* zone",
            "2:3: error: unterminated comment: expected '*/'",
        ),
        (
            "zone a { type owner; };",
            "1:15: error: expected primary, secondary or another type, found 'owner'",
        ),
        (
            "zone a { type primary; };",
            "1:6: error: zone a. has no file",
        ),
        ("zone a { file \"x\"; };", "1:6: error: zone a. has no type"),
        (
            "zone a..b { type hint; };",
            "1:6: error: invalid zone name 'a..b': ",
        ),
        (
            "zone a { type hint; };\nzone \"A.\" { type hint; };",
            "2:6: error: zone A. is defined twice",
        ),
        (
            "zone { type hint; };",
            "1:1: error: expected a zone name, found '{'",
        ),
        (
            "zone a IM { type hint; };",
            "1:8: error: expected a class or '{', found 'IM'",
        ),
        (
            "zone a IN now { type hint; };",
            "1:11: error: expected '{', found 'now'",
        ),
        ("zone a;", "1:7: error: expected '{', found ';'"),
        (
            "zne a { };",
            "1:1: error: expected zone, view, options or another statement, found 'zne'",
        ),
        ("options { }; }", "1:14: error: unmatched '}'"),
        ("{ };", "1:1: error: expected a statement, found '{'"),
        (
            "zone a { type slave; masters { b; }; };",
            "1:32: error: expected an address or list name, found 'b'",
        ),
        (
            "masters b { b; }; zone a { type slave; masters { b; }; };",
            "1:13: error: lists nested more than 8 levels deep: does 'b' contain itself?",
        ),
        (
            "zone a { type slave; masters port x { 192.0.2.1; }; };",
            "1:35: error: expected a port, found 'x'",
        ),
        (
            "zone a { type hint; allow-query { b; }; };",
            "1:35: error: expected an address or list name, found 'b'",
        ),
        (
            "acl b { { b; }; }; zone a { type hint; allow-query { b; }; };",
            "1:11: error: list 'b' contains itself",
        ),
        (
            "zone a { type hint; allow-query { 10.0.0.1/8; }; };",
            "1:35: error: '10.0.0.1/8': the address has bits set after the prefix",
        ),
        (
            "zone a { type hint; allow-query { 10/33; }; };",
            "1:35: error: '10/33': prefix too long",
        ),
        ("acl any { };", "1:5: error: 'any' is built in"),
        ("acl b { }; acl B { };", "1:12: error: duplicate list name"),
        (
            "options { blackhole { geoip country CH; }; };",
            "1:23: error: geoip is not supported",
        ),
        (
            "include \"/nowhere\";",
            "1:9: error: cannot read /nowhere: ",
        ),
        (
            "include \"/no*where\";",
            "1:9: error: no file matches '/no*where'",
        ),
        (
            "include \"named.conf\";",
            "1:9: error: /etc/named.conf includes itself",
        ),
    ] {
        let errors = errors(text, &[]);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        let expected = format!("/etc/named.conf:{expected}");
        assert!(
            errors[0].starts_with(&expected),
            "{text}: {} {expected}",
            errors[0]
        );
    }
}

#[test]
fn an_error_in_an_included_file_names_that_file() {
    let found = errors(
        "include \"/etc/local\";",
        &[("/etc/local", "\nzone a {;};")],
    );
    assert_eq!(found, ["/etc/local:2:6: error: zone a. has no type"]);
}

#[test]
fn endless_input_is_bounded() {
    let deep = "a {".repeat(40);
    assert!(errors(&deep, &[])[0].contains("blocks nested more than 32 levels deep"));
    // Files that include each other, each under another name.
    let files: Vec<(String, String)> = (0..40)
        .map(|n| {
            (
                format!("/etc/{n}"),
                format!("include \"/etc/{}\"; include \"/etc/{}\";", n + 1, n + 1),
            )
        })
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .collect();
    let found = errors("include \"/etc/0\";", &files);
    assert!(
        found[0].contains("includes nested more than 16 levels deep"),
        "{found:?}"
    );
    assert!(found.len() <= 20);
    // Lists of lists that hold nothing.
    let mut text: String = (0..6)
        .map(|n| format!("masters l{n} {{ {} }};", format!("l{};", n + 1).repeat(20)))
        .collect();
    text.push_str("masters l6 { }; zone a { type slave; masters { l0; }; };");
    assert!(errors(&text, &[])[0].contains("more than 1000 servers"));
    let many = "zone a { };".repeat(1000);
    assert_eq!(errors(&many, &[]).len(), 20);
}
