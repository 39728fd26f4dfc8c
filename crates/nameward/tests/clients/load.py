"""Load over one encrypted transport, with dnspython: load.py queries|updates TRANSPORT AUTHORITY PORT

queries: asks on a connection that stays open and on new ones, until standard input is closed, and prints the number of answers
after each round. Every query must be answered.
updates: adds names, and prints each when its UPDATE was answered, until the server is gone.
"""

import itertools
import ssl
import sys
import threading

import dns.message
import dns.query
import dns.quic
import dns.rcode
import dns.update
import httpx2

WORK, TRANSPORT, AUTHORITY, PORT = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
NAME, HOST = "dns.example.org", "127.0.0.1"
# A server that was killed answers nothing over QUIC.
TIMEOUT = 20 if WORK == "updates" else 60
CONTEXT = ssl.create_default_context(cafile=AUTHORITY)


def ask(query, session=None):
    if TRANSPORT == "tls":
        return dns.query.tls(query, HOST, TIMEOUT, PORT, ssl_context=CONTEXT, server_hostname=NAME)
    if TRANSPORT == "https":
        version = dns.query.HTTPVersion.HTTP_2
        url = f"https://{NAME}:{PORT}/dns-query"
        if session:
            extensions = {"sni_hostname": NAME}
            media = {"content-type": "application/dns-message"}
            reply = session.post(f"https://{HOST}:{PORT}/dns-query", content=query.to_wire(), headers=media, extensions=extensions)
            assert reply.status_code == 200, reply
            return dns.message.from_wire(reply.content)
        return dns.query.https(query, url, TIMEOUT, PORT, bootstrap_address=HOST, verify=AUTHORITY, http_version=version)
    query.id = 0
    return dns.query.quic(query, HOST, TIMEOUT, PORT, connection=session, verify=AUTHORITY, server_hostname=NAME)


def query():
    return dns.message.make_query("www.example.org.", "A")


def queries(session):
    closed = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), closed.set()), daemon=True).start()
    for number in itertools.count(1):
        for connection in [session, None]:
            reply = ask(query(), connection)
            assert str(reply.answer[0][0]) == "192.0.2.1", reply
        print(2 * number, flush=True)
        if closed.is_set():
            return


def updates(session):
    for number in itertools.count():
        message = dns.update.UpdateMessage("example.org.")
        message.add(f"n{number}", 60, "A", "192.0.2.77")
        try:
            reply = ask(message, session)
        except Exception:
            return
        assert reply.rcode() == dns.rcode.NOERROR, reply
        print(f"n{number}", flush=True)


work = {"queries": queries, "updates": updates}[WORK]
if TRANSPORT == "https":
    with httpx2.Client(http2=True, http1=False, verify=CONTEXT, timeout=TIMEOUT) as session:
        work(session)
elif TRANSPORT == "quic":
    with dns.quic.SyncQuicManager(verify_mode=AUTHORITY, server_name=NAME) as manager:
        work(manager.connect(HOST, PORT))
else:
    work(None)
