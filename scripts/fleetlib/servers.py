"""The Nameward servers of a fleet, and what their clients see."""
import collections
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RCODES = {0: "NOERROR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED"}
# Names of the large zone: more than caches have.
LARGE = 20000
FAULTS = ("backend_lost", "backend_down", "changes_unseen", "backend_behind", "backend_server_down")


def program():
    names = [os.environ.get("NAMEWARD", "")]
    names += [str(ROOT / "target" / profile / "nameward") for profile in ("dist", "release", "debug")]
    for name in names:
        if name and os.access(name, os.X_OK):
            return name
    sys.exit("no program: build one, or set NAMEWARD")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def query(port, name, timeout):
    """Returns the response code and the last octet of the address; None if there is no answer in time."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    number = os.urandom(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(timeout)
        client.connect(("127.0.0.1", port))
        try:
            client.send(number + b"\0\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1")
            while True:
                reply = client.recv(4096)
                if reply[:2] == number:
                    return reply[3] & 15, reply[-1] if reply[7] else None
        except OSError:
            return None


class Server:
    def __init__(self, number, directory, kind, urls, mode, settings=""):
        self.number, self.directory, self.mode = number, directory, mode
        self.port, self.web, self.clock = free_port(), free_port(), 0
        (directory / "state").mkdir(parents=True)
        addresses = ", ".join(f'"{url}"' for url in urls)
        (directory / "nameward.toml").write_text(
            f'[server]\nstate_directory = "{directory}/state"\ncontrol_socket = "{directory}/control.sock"\n'
            f'[web]\nlisten = "127.0.0.1:{self.web}"\n'
            f'[[backend]]\ntype = "{kind}"\nurl = [{addresses}]\nmode = "{mode}"\n{settings}\n')

    def start(self):
        environment = dict(os.environ, RUNTIME_DIRECTORY=str(self.directory))
        if self.clock:
            from .databases import FAKETIME
            environment |= {"LD_PRELOAD": FAKETIME, "FAKETIME": f"{self.clock:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.process = subprocess.Popen(
            [program(), "serve", "--config", self.directory / "nameward.toml", "--listen", f"127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL, stderr=open(self.directory / "log", "a"), env=environment)

    def command(self, *words):
        return subprocess.run([program(), *words], capture_output=True, text=True,
                              env=dict(os.environ, RUNTIME_DIRECTORY=str(self.directory)))

    def is_running(self):
        return self.process.poll() is None

    def announced(self):
        return (self.directory / "log").read_text().count("sending notifies")

    def faults(self):
        """Returns the faults of databases that it shows."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/metrics", timeout=2) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return set()
        shown = (line.split('"')[1] for line in lines if line.startswith("nameward_faults{") and not line.endswith(" 0"))
        return {fault for fault in shown if fault in FAULTS}

    def lag(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/metrics", timeout=2) as page:
            lines = page.read().decode().splitlines()
        return [line for line in lines if "database_lag" in line and not line.startswith("#")]

    def end(self):
        if self.is_running():
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait()


class Observer(threading.Thread):
    """Something that is repeated until it is stopped."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.stopped, self.lock = server, False, threading.Lock()

    def run(self):
        while not self.stopped:
            self.step()


class Load(Observer):
    """Queries for names that never change; a client gives up after two seconds."""

    def __init__(self, server, zones):
        super().__init__(server)
        self.zones, self.counts, self.slowest = zones, collections.Counter(), 0.0

    def step(self):
        start = time.monotonic()
        small, large = f"ns1.z{random.randrange(self.zones)}.test", f"n{random.randrange(LARGE)}.large.test"
        reply = query(self.server.port, random.choice((small, large)), 2)
        if reply is None:
            seen = "no answer"
        elif reply[0] == 0 and reply[1] != 1:
            seen = "WRONG"
        else:
            seen = RCODES.get(reply[0], reply[0])
        with self.lock:
            self.slowest = max(self.slowest, time.monotonic() - start)
            self.counts[seen] += 1
        time.sleep(0.002)

    def take(self):
        with self.lock:
            counts, slowest = self.counts, self.slowest
            self.counts, self.slowest = collections.Counter(), 0.0
        return counts, slowest


class Writer(Observer):
    """Makes one change after another through a server."""

    def __init__(self, server, zones):
        super().__init__(server)
        self.zones, self.number = zones, 0
        self.acknowledged, self.failed, self.done, self.errors = {}, 0, [], collections.Counter()

    def step(self):
        self.change()
        time.sleep(0.1)

    def change(self):
        """Makes a change; returns its name if it was acknowledged."""
        with self.lock:
            self.number += 1
            number = self.number
        name, octet = f"c{number}-{self.server.number}", number % 250 + 2
        zone = f"z{random.randrange(self.zones)}.test"
        done = self.server.command("record", "set", zone, name, "A", "60", f"192.0.2.{octet}")
        with self.lock:
            if done.returncode != 0:
                self.failed += 1
                self.errors[done.stderr.strip()[:240]] += 1
                return None
            self.acknowledged[f"{name}.{zone}"] = octet
            self.done.append(time.monotonic())
        return f"{name}.{zone}"

    def longest_pause(self, since, until):
        """Returns the longest time within which no change was acknowledged."""
        with self.lock:
            times = [since, *(at for at in self.done if since < at < until), until]
        return max(later - earlier for earlier, later in zip(times, times[1:]))


class FaultWatch(Observer):
    """Notes when a server begins to show a fault."""

    def __init__(self, server):
        super().__init__(server)
        self.seen = []

    def step(self):
        faults = self.server.faults() if self.server.is_running() else set()
        with self.lock:
            if not self.seen or self.seen[-1][1] != faults:
                self.seen.append((time.monotonic(), faults))
        time.sleep(0.2)

    def shown_after(self, since):
        """Returns the faults shown since then, and after how many seconds."""
        with self.lock:
            seen = list(self.seen)
        after = {}
        before = [faults for at, faults in seen if at < since][-1:]
        for fault in before[0] if before else ():
            after[fault] = 0.0
        for at, faults in seen:
            for fault in faults:
                if at >= since:
                    after.setdefault(fault, at - since)
        return after


class Secondary(threading.Thread):
    """Confirms NOTIFY and counts them by zone and serial."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.count = 0

    def address(self):
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    def run(self):
        while True:
            packet, peer = self.socket.recvfrom(4096)
            self.count += 1
            self.socket.sendto(packet[:2] + bytes([packet[2] | 0x80]) + packet[3:], peer)
