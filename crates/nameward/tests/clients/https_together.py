"""Requests over HTTP/2 that arrive together, with h2: https_together.py AUTHORITY PORT"""

import socket
import ssl
import sys

import dns.message
from h2.connection import H2Connection
from h2.events import DataReceived, SettingsAcknowledged, StreamEnded

AUTHORITY, PORT = sys.argv[1], int(sys.argv[2])
REQUESTS = 8


def send_request(http, name):
    query = dns.message.make_query(name, "A")
    query.id = 0
    body = query.to_wire()
    stream = http.get_next_available_stream_id()
    headers = [(":method", "POST"), (":scheme", "https"), (":authority", "dns.example.org"), (":path", "/dns-query")]
    headers += [("content-type", "application/dns-message"), ("content-length", str(len(body)))]
    http.send_headers(stream, headers)
    http.send_data(stream, body, end_stream=True)
    return stream


context = ssl.create_default_context(cafile=AUTHORITY)
context.set_alpn_protocols(["h2"])
tcp = socket.create_connection(("127.0.0.1", PORT), timeout=60)
with context.wrap_socket(tcp, server_hostname="dns.example.org") as tls:
    http = H2Connection()
    http.initiate_connection()
    send_request(http, "www.example.org.")
    # The settings of both sides come with the first response.
    awaited = {StreamEnded, SettingsAcknowledged}
    while awaited:
        tls.sendall(http.data_to_send())
        awaited -= {type(event) for event in http.receive_data(tls.recv(65536))}
    tls.sendall(http.data_to_send())

    names = ["www.example.org.", "alias.example.org."] * (REQUESTS // 2)
    asked = {send_request(http, name): name for name in names}
    tls.sendall(http.data_to_send())
    # Each call returns the contents of one TLS record.
    events = http.receive_data(tls.recv(65536))
    bodies = {event.stream_id: event.data for event in events if isinstance(event, DataReceived)}
    ended = [event.stream_id for event in events if isinstance(event, StreamEnded)]
    assert sorted(ended) == sorted(asked), f"of {sorted(asked)} the first record has the responses of {ended}"
    for stream, name in asked.items():
        response = dns.message.from_wire(bodies[stream])
        assert str(response.question[0].name) == name, response
        assert str(response.answer[-1][0]) == "192.0.2.1", response
