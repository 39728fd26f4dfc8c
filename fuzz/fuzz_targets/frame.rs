//! Fuzzes Ethernet frames as an interface with XDP receives them. No panic, and the reply to a datagram is a datagram from its
//! target to its sender.
#![no_main]

use nameward_serve::xdp::frame::{ReplyHead, read};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut head = ReplyHead::default();
    let Some(inbound) = read(data, 1, &mut head) else {
        return;
    };
    let payload = &inbound.payload[..inbound.payload.len().min(1400)];
    let mut out = vec![0; head.len()];
    out.extend(payload);
    head.write(&mut out, 7).expect("it fits");
    assert!(out.len() >= head.packet_len(payload.len()));
    // The address of this host may be one that no packet comes from.
    if let Some(back) = read(&out, 1, &mut ReplyHead::default()) {
        assert_eq!(back.payload, payload);
        assert_eq!(back.client.ip(), inbound.local.ip());
        assert_eq!(back.local.ip(), inbound.client.ip());
        assert_eq!(back.local.port(), inbound.client.port());
    }
});
