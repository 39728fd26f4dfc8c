//! Tests of bound sockets.

use super::*;
use crate::listener::ListenTransports;

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[test]
fn second_server_on_the_port_is_refused_in_one_line() {
    let first = bind_all(&[loopback()], 2).unwrap();
    let error = bind_all(&first.addresses, 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {}/udp: address already in use (is another server running?)",
            first.addresses[0]
        )
    );
}

#[test]
fn port_taken_for_tcp_only_is_named_as_tcp() {
    let taken = TcpListener::bind(loopback()).unwrap();
    let address = taken.local_addr().unwrap();
    let error = bind_all(&[address], 1).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot listen on {address}/tcp: address already")),
        "{error}"
    );
}

#[test]
fn port_zero_gives_workers_and_tcp_the_same_port() {
    let bound = bind_all(&[loopback(), "[::1]:0".parse().unwrap()], 3).unwrap();
    assert_eq!(bound.udp.len(), 3);
    for (index, address) in bound.addresses.iter().enumerate() {
        assert_ne!(address.port(), 0);
        let tcp = &bound.tcp[index].listener;
        assert_eq!(tcp.local_addr().unwrap(), *address);
        for worker in &bound.udp {
            assert_eq!(worker[index].local(), *address);
        }
    }
}

#[test]
fn an_address_may_have_one_transport_only() {
    let only = |udp, tcp| ListenAddress {
        transports: ListenTransports { udp, tcp },
        ..ListenAddress::from(loopback())
    };
    let bound = bind_all(&[only(true, false), only(false, true)], 2).unwrap();
    let (udp, tcp) = (bound.addresses[0], bound.addresses[1]);
    assert_eq!(
        (bound.udp[0].len(), bound.udp[1].len(), bound.tcp.len()),
        (1, 1, 1)
    );
    assert_eq!(bound.udp[1][0].local(), udp);
    assert_eq!(bound.tcp[0].listener.local_addr().unwrap(), tcp);
    // The other transport of each port is free.
    let at = |address: SocketAddr, entry: ListenAddress| ListenAddress { address, ..entry };
    let others = [at(tcp, only(true, false)), at(udp, only(false, true))];
    assert!(bind_all(&others, 1).is_ok());
}

#[test]
fn overlapping_addresses_are_named() {
    let list =
        ["0.0.0.0:5399", "[::]:5399", "127.0.0.1:5399"].map(|a| a.parse::<SocketAddr>().unwrap());
    assert_eq!(
        bind_all(&list, 1).unwrap_err().to_string(),
        "cannot listen on 127.0.0.1:5399: 0.0.0.0:5399 in the same list already covers it"
    );
}

#[test]
fn foreign_address_is_explained() {
    let error = bind_all(&["192.0.2.1:0".parse::<SocketAddr>().unwrap()], 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot listen on 192.0.2.1:0/udp: no interface has this address"
    );
}
