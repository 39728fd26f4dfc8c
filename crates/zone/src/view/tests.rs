//! The view of a request.

use super::*;
use crate::{AccessEntry, AccessWord};

fn rule(id: u16) -> ViewRule {
    ViewRule {
        id: ViewId(id),
        name: format!("view{id}"),
        networks: Vec::new(),
        keys: Vec::new(),
        listen: Vec::new(),
        match_clients: None,
        zones: Vec::new(),
    }
}

#[test]
fn a_key_comes_before_a_listener_and_that_before_a_network() {
    let mut rules = [rule(1), rule(2), rule(3)];
    rules[0].keys.push("key.test.".parse().unwrap());
    rules[1].listen.push("192.0.2.1:53".parse().unwrap());
    rules[1].listen.push("0.0.0.0:5300".parse().unwrap());
    rules[2].networks.push(("10.0.0.0".parse().unwrap(), 8));
    let selection = ViewSelection::new(&rules);
    let select = |key, local, address| selected(&selection, key, local, address);
    assert_eq!(
        select(Some("KEY.test."), "192.0.2.1:53", "10.0.0.1"),
        (1, 0)
    );
    assert_eq!(select(Some("other."), "192.0.2.1:53", "10.0.0.1"), (2, 0));
    assert_eq!(select(None, "192.0.2.9:5300", "10.0.0.1"), (2, 0));
    assert_eq!(select(None, "192.0.2.9:53", "10.0.0.1"), (3, 8));
    assert_eq!(select(None, "", "::ffff:10.0.0.1"), (3, 8));
    assert_eq!(select(None, "", "11.0.0.1"), (0, 8));
}

#[test]
fn a_list_of_clients_comes_first_in_order() {
    let mut rules = [rule(1), rule(2), rule(3), rule(4)];
    let list = |words: &[(bool, AccessWord)]| {
        let entries = words.iter().map(|(is_negated, term)| AccessEntry {
            is_negated: *is_negated,
            term: term.clone(),
        });
        Some(AccessList::new(&entries.collect::<Vec<_>>()))
    };
    let network = |text: &str, bits| AccessWord::Network(text.parse().unwrap(), bits);
    rules[0].keys.push("key.test.".parse().unwrap());
    rules[1].match_clients = list(&[
        (true, network("10.0.0.1", 32)),
        (false, network("10.0.0.0", 8)),
    ]);
    rules[2].match_clients = list(&[(false, AccessWord::Any)]);
    rules[2].listen.push("192.0.2.1:0".parse().unwrap());
    rules[3].networks.push(("10.0.0.1".parse().unwrap(), 32));
    let selection = ViewSelection::new(&rules);
    let select = |key, local, address| selected(&selection, key, local, address).0;
    assert_eq!(select(Some("key.test."), "192.0.2.9:53", "10.0.0.2"), 2);
    assert_eq!(select(Some("key.test."), "192.0.2.1:53", "10.0.0.1"), 3);
    assert_eq!(select(Some("key.test."), "192.0.2.9:53", "10.0.0.1"), 1);
    assert_eq!(select(None, "192.0.2.9:53", "10.0.0.1"), 4);
}

/// The number of the view of a request, and the scope.
fn selected(selection: &ViewSelection, key: Option<&str>, local: &str, address: &str) -> (u16, u8) {
    let key: Option<NameBuf> = key.map(|key| key.parse().unwrap());
    let address: IpAddr = address.parse().unwrap();
    let selected = selection.select(&ViewClient {
        sender: AccessClient::in_plain_text(address, key.as_ref().map(NameBuf::as_name)),
        local: local.parse().ok(),
        address,
        known_bits: 32,
    });
    (selected.view.0, selected.bits)
}
