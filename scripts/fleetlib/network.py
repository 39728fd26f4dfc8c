"""Networks of their own for database servers, so that a machine can vanish.

The network of this process is the hub: it has a link to the network of each node, and forwards between them.
"""
import os
import subprocess
import sys

INSIDE = "NAMEWARD_FLEET_NETWORK"


def enter():
    """Starts this program again in a network and with mounts of its own, which end with it."""
    if os.environ.get(INSIDE):
        run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        run("ip", "link", "set", "lo", "up")
        with open("/proc/sys/net/ipv4/ip_forward", "w") as forward:
            forward.write("1")
        return
    if os.geteuid() != 0:
        sys.exit("scripts/fleet: run it as root: each database server gets a network of its own")
    os.makedirs("/run/netns", exist_ok=True)
    os.environ[INSIDE] = "yes"
    own = ["unshare", "--net", "--mount"]
    os.execvp("unshare", [*own, sys.executable, *sys.argv])


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Host:
    """A machine with one link to the hub."""

    def __init__(self, number):
        self.name, self.link = f"node{number}", f"hub{number}"
        self.address, self.hub = f"10.77.{number}.2", f"10.77.{number}.1"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "uplink", "netns", self.name)
        run("ip", "addr", "add", f"{self.hub}/24", "dev", self.link)
        run("ip", "link", "set", self.link, "up")
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("ip", "addr", "add", f"{self.address}/24", "dev", "uplink")
        self.come_back()
        # Without it the hub would find out that the machine is gone, and report that to its programs at once.
        own = self.inside("cat", "/sys/class/net/uplink/address").strip()
        run("ip", "neigh", "replace", self.address, "lladdr", own, "dev", self.link, "nud", "permanent")

    def inside(self, *words):
        return run(*self.prefix(), *words)

    def prefix(self):
        return ["ip", "netns", "exec", self.name]

    def vanish(self):
        """Packets to it are lost without any notice."""
        self.inside("ip", "link", "set", "uplink", "down")

    def come_back(self):
        self.inside("ip", "link", "set", "uplink", "up")
        self.inside("ip", "route", "replace", "default", "via", self.hub)
