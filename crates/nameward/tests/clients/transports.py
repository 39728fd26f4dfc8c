"""Sends 500 random queries on every transport that is given, with dnspython: transports.py AUTHORITY TRANSPORT=ADDRESS:PORT..."""

import contextlib
import random
import ssl
import sys

import dns.flags
import dns.message
import dns.query
import dns.quic
import dns.rcode
import httpx2

AUTHORITY = sys.argv[1]
NAME = "dns.example.org"
TRANSPORTS = []
for argument in sys.argv[2:]:
    transport, address = argument.split("=")
    host, port = address.rsplit(":", 1)
    TRANSPORTS.append((transport, host, int(port)))


CONTEXT = ssl.create_default_context(cafile=AUTHORITY)
# The HTTP client sets the protocols to negotiate (ALPN) in its context.
HTTPS_CONTEXT = ssl.create_default_context(cafile=AUTHORITY)
# Closes the current connection over QUIC.
QUIC = contextlib.ExitStack()


def ask(query_number, transport, host, port, query):
    if transport == "udp":
        return dns.query.udp(query, host, 20, port)
    if transport == "tcp":
        return dns.query.tcp(query, host, 20, port)
    if transport == "tls":
        return dns.query.tls(query, host, 20, port, ssl_context=CONTEXT, server_hostname=NAME)
    if transport == "https":
        url = f"https://{NAME}:{port}/dns-query"
        post, version = random.random() < 0.5, random.choice([dns.query.HTTPVersion.HTTP_1, dns.query.HTTPVersion.HTTP_2])
        return dns.query.https(query, url, 20, port, bootstrap_address=host, verify=HTTPS_CONTEXT, post=post, http_version=version)
    assert transport == "quic", transport
    # A handshake in Python takes longer than all the rest: ten queries on each connection.
    if query_number % 10 == 0:
        QUIC.close()
        manager = QUIC.enter_context(dns.quic.SyncQuicManager(verify_mode=AUTHORITY, server_name=NAME))
        QUIC.connection = manager.connect(host, port)
    return dns.query.quic(query, host, 20, port, connection=QUIC.connection)


def text(reply):
    """The reply without its ID, and with the records of each section in order."""
    lines = [dns.rcode.to_text(reply.rcode()), dns.flags.to_text(reply.flags & ~dns.flags.TC)]
    for section in reply.sections:
        lines.append(";")
        lines.extend(sorted(str(rrset) for rrset in section))
    return "\n".join(lines)


random.seed(20230101)
LABELS = ["www", "alias", "mail", "ns", "a.wild", "b.c.wild", "child", "x.child", "none", "WWW", ""]
TYPES = ["A", "AAAA", "MX", "TXT", "NS", "SOA", "CNAME", "ANY", "DS", "TYPE65280"]
for number in range(500):
    label = random.choice(LABELS)
    name = ".".join(filter(None, [label, random.choice(["example.org.", "example.org.", "other.example."])]))
    edns = random.choice([-1, 0])
    query = dns.message.make_query(name, random.choice(TYPES), use_edns=edns, want_dnssec=edns == 0 and random.random() < 0.5)
    replies = {}
    for transport, host, port in TRANSPORTS:
        if transport == "quic":
            query.id = 0
        replies[transport] = text(ask(number, transport, host, port, query))
    if len(set(replies.values())) != 1:
        print(f"query {number}, {query.question[0]}: {replies}")
        sys.exit(1)
QUIC.close()
for transport, host, port in TRANSPORTS:
    if transport == "https":
        # The client that dnspython uses, which says what HTTP version was spoken.
        with httpx2.Client(http2=True, http1=False, verify=HTTPS_CONTEXT) as client:
            message = dns.message.make_query("www.example.org.", "A", id=0).to_wire()
            media = {"content-type": "application/dns-message"}
            extensions = {"sni_hostname": NAME}
            for _ in range(3):
                reply = client.post(f"https://{host}:{port}/dns-query", content=message, headers=media, extensions=extensions)
                assert reply.http_version == "HTTP/2" and reply.status_code == 200, reply
                assert str(dns.message.from_wire(reply.content).answer[0][0]) == "192.0.2.1"
print("500 queries have equal answers on", ", ".join(transport for transport, _, _ in TRANSPORTS))
