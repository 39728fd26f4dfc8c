"""Scenarios of DNS over QUIC with aioquic: quic.py SCENARIO AUTHORITY PORT [CERTIFICATE KEY]"""

import asyncio
import socket
import struct
import sys
import time

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import dns.update
from aioquic import tls
from aioquic.asyncio import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamDataReceived, StreamReset
from aioquic.quic.packet_builder import QuicDeliveryState

SCENARIO, AUTHORITY, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
IDENTITY = sys.argv[4:]
PROTOCOL_ERROR, EXCESSIVE_LOAD = 2, 4
# Handshakes that run at the same time before addresses are validated.
RETRY_ABOVE = 64
TICKETS = []


class Doq(QuicConnectionProtocol):
    """Collects what the server sends on each stream."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.streams = {}
        self.ended = asyncio.get_running_loop().create_future()
        self.handshake = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event):
        if isinstance(event, StreamDataReceived) and event.stream_id in self.streams:
            data, done = self.streams[event.stream_id]
            data.extend(event.data)
            if event.end_stream and not done.done():
                done.set_result(bytes(data))
        elif isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.streams[event.stream_id][1].set_exception(ConnectionResetError(event.error_code))
        elif isinstance(event, HandshakeCompleted):
            self.handshake.set_result(event)
        elif isinstance(event, ConnectionTerminated) and not self.ended.done():
            self.ended.set_result(event.error_code)

    def send(self, octets, finish=True):
        stream = self._quic.get_next_available_stream_id()
        done = asyncio.get_running_loop().create_future()
        self.streams[stream] = (bytearray(), done)
        self._quic.send_stream_data(stream, octets, finish)
        self.transmit()
        return done


def framed(message):
    wire = message if isinstance(message, bytes) else message.to_wire()
    return struct.pack("!H", len(wire)) + wire


def query(name="www.example.org.", rtype="A", **options):
    message = dns.message.make_query(name, rtype, **options)
    message.id = 0
    return message


def frames(octets):
    at = 0
    while at < len(octets):
        length = struct.unpack("!H", octets[at : at + 2])[0]
        yield octets[at + 2 : at + 2 + length]
        at += 2 + length


def messages(octets):
    return [dns.message.from_wire(frame, one_rr_per_rrset=True, xfr=True) for frame in frames(octets)]


def client(ticket=None):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["doq"], server_name="dns.example.org")
    configuration.load_verify_locations(AUTHORITY)
    configuration.session_ticket = ticket
    if IDENTITY:
        configuration.load_cert_chain(*IDENTITY)
    return configuration


def connection(ticket=None, wait=True):
    return connect("127.0.0.1", PORT, configuration=client(ticket), create_protocol=Doq, session_ticket_handler=TICKETS.append, wait_connected=wait)


async def many_queries():
    async with connection() as doq:
        replies = await asyncio.gather(*(doq.send(framed(query())) for _ in range(50)))
        for reply in replies:
            (message,) = messages(reply)
            assert message.id == 0 and str(message.answer[0][0]) == "192.0.2.1", message
        assert TICKETS, "the server sends session tickets"


async def early_data():
    await many_queries()
    padded = query(use_edns=0, options=[dns.edns.GenericOption(dns.edns.OptionType.PADDING, b"\0" * 16)])
    async with connection(TICKETS[-1], wait=False) as doq:
        reply = await doq.send(framed(padded))
        assert len(reply) == 2 + 468, len(reply)
        (message,) = messages(reply)
        assert str(message.answer[0][0]) == "192.0.2.1", message
        handshake = await doq.handshake
        assert handshake.session_resumed, "the session is resumed"
        assert handshake.early_data_accepted, "early data is accepted"


async def early_data_after_retry():
    # aioquic forgets the early data that it sent before a Retry packet: it starts with new packet number spaces and never
    # takes the packets of the old ones for lost. A client has to send their contents again (RFC 9000 section 17.2.5.3).
    receive = QuicConnection._receive_retry_packet

    def resend(self, header, packet_without_tag, now):
        early, retries = self._spaces[tls.Epoch.ONE_RTT], self._retry_count
        receive(self, header, packet_without_tag, now)
        for packet in early.sent_packets.values() if self._retry_count > retries else []:
            for handler, arguments in packet.delivery_handlers:
                handler(QuicDeliveryState.LOST, *arguments)

    QuicConnection._receive_retry_packet = resend
    await early_data()


async def retry_under_load():
    async with connection() as doq:
        assert doq._quic._retry_count == 0, "a single client starts at once"
    # Handshakes that are started and not completed.
    sockets = []
    for _ in range(RETRY_ABOVE):
        half_open = QuicConnection(configuration=client())
        half_open.connect(("127.0.0.1", PORT), now=time.time())
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.settimeout(60)
        for octets, address in half_open.datagrams_to_send(now=time.time()):
            udp.sendto(octets, address)
        udp.recv(65536)
        sockets.append(udp)
    async with connection() as doq:
        assert doq._quic._retry_count == 1, "a client shows its address first"
        (message,) = messages(await doq.send(framed(query())))
        assert str(message.answer[0][0]) == "192.0.2.1", message


async def transfer():
    async with connection() as doq:
        found = messages(await doq.send(framed(query("example.org.", "AXFR"))))
        records = [record for message in found for record in message.answer]
        assert len(found) > 1 and len(records) > 20000, (len(found), len(records))
        assert records[0].rdtype == records[-1].rdtype == dns.rdatatype.SOA


async def violations():
    other_id = query()
    other_id.id = 7
    keepalive = query(use_edns=0, options=[dns.edns.GenericOption(11, b"")])
    for octets in [framed(other_id), framed(keepalive), framed(query()) * 2, framed(query())[:-1], b"\0", b"\0" * 70000]:
        async with connection() as doq:
            doq.send(octets).add_done_callback(lambda done: done.cancelled() or done.exception())
            error = await asyncio.wait_for(doq.ended, 30)
            assert error == PROTOCOL_ERROR, (octets[:20], error)
    async with connection() as doq:
        try:
            await asyncio.wait_for(doq.send(framed(query())[:5], finish=False), 30)
            raise AssertionError("a stream that is not finished has no response")
        except ConnectionResetError as error:
            assert error.args[0] == EXCESSIVE_LOAD, error
        # The connection goes on.
        (message,) = messages(await doq.send(framed(query())))
        assert str(message.answer[0][0]) == "192.0.2.1", message


async def upgrade():
    """Asks on one connection while another process takes over: every query is answered until the connection is closed."""
    loop = asyncio.get_running_loop()
    async with connection() as doq, connection() as other:
        transfer = other.send(framed(query("one.example.", "AXFR")))
        told = loop.run_in_executor(None, sys.stdin.readline)
        answered_after = 0
        print("connected", flush=True)
        while not doq.ended.done():
            reply = doq.send(framed(query("www.one.example.")))
            await asyncio.wait([reply, doq.ended], return_when=asyncio.FIRST_COMPLETED)
            if not reply.done():
                break
            (message,) = messages(reply.result())
            assert str(message.answer[0][0]) == "192.0.2.2", message
            answered_after += told.done()
            await asyncio.sleep(0.05)
        assert await doq.ended == 0, "DOQ_NO_ERROR"
        assert (await told).strip() == "upgraded"
        # Only the ends of it are read record by record: there are thousands.
        parts = list(frames(await transfer))
        first, last = (dns.message.from_wire(part, one_rr_per_rrset=True, xfr=True).answer for part in (parts[0], parts[-1]))
        assert first[0].rdtype == last[-1].rdtype == dns.rdatatype.SOA, len(parts)
    # A client connects again at once.
    async with connection() as doq:
        (message,) = messages(await doq.send(framed(query("www.one.example."))))
        assert str(message.answer[0][0]) == "192.0.2.2", message
    print(answered_after, "queries answered by the server before", flush=True)


def update(label):
    message = dns.update.UpdateMessage("example.org.")
    message.add(label, 60, "A", "192.0.2.77")
    message.id = 0
    return message


def notify():
    message = dns.message.make_query("example.org.", "SOA")
    message.set_opcode(dns.opcode.NOTIFY)
    message.flags = (message.flags | dns.flags.AA) & ~dns.flags.RD
    message.id = 0
    return message


async def answered(message):
    async with connection() as doq:
        (reply,) = messages(await doq.send(framed(message)))
        return reply


async def one_query():
    print(dns.rcode.to_text((await answered(query())).rcode()))


async def one_update():
    print(dns.rcode.to_text((await answered(update("new"))).rcode()))


async def early_changes():
    """Early data of a client that never finishes its handshake, as in a replay: a query, and what must not be repeated."""
    await many_queries()
    quic = QuicConnection(configuration=client(TICKETS[-1]))
    quic.connect(("127.0.0.1", PORT), now=time.time())
    for message in [update("early"), notify(), query("example.org.", "AXFR"), query()]:
        quic.send_stream_data(quic.get_next_available_stream_id(), framed(message), True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        for datagram, address in quic.datagrams_to_send(now=time.time()):
            raw.sendto(datagram, address)
        # The server's part of the handshake, and the answer to the query: nothing is acknowledged.
        raw.settimeout(30)
        raw.recv(2048)
    # The same from a client that goes on: each is answered, after the handshake.
    await many_queries()
    async with connection(TICKETS[-1], wait=False) as doq:
        replies = [doq.send(framed(message)) for message in [update("late"), query()]]
        changed, found = [messages(reply)[0] for reply in await asyncio.gather(*replies)]
        assert changed.opcode() == dns.opcode.UPDATE and changed.rcode() == dns.rcode.NOERROR, changed
        assert str(found.answer[0][0]) == "192.0.2.1", found
        assert (await doq.handshake).early_data_accepted, "early data is accepted"


scenarios = {
    "query": one_query,
    "update": one_update,
    "early_changes": early_changes,
    "queries": many_queries,
    "early_data": early_data,
    "early_data_after_retry": early_data_after_retry,
    "retry_under_load": retry_under_load,
    "transfer": transfer,
    "violations": violations,
    "upgrade": upgrade,
}
asyncio.run(asyncio.wait_for(scenarios[SCENARIO](), 120))
