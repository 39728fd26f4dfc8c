"""Runs powerdns-cli through its commands; each one again must find nothing to do."""
import json
import os
import subprocess
import sys
from pathlib import Path

_, url, key, directory = sys.argv
program = Path(sys.executable).parent / "powerdns-cli"


def run(*words, expects=True):
    command = [program, *words[:2], "-u", url, "-a", key, "-j", *words[2:]]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HOME": directory})
    output = done.stdout + done.stderr
    assert (done.returncode == 0) == expects, (words, output)
    return json.loads(done.stdout) if done.stdout.strip().startswith("{") else done.stdout


def twice(*words):
    run(*words)
    again = run(*words)
    assert "already" in json.dumps(again), (words, again)


zone = "cli.test."
twice("zone", "add", zone, "NATIVE")
twice("record", "add", "www", zone, "A", "192.0.2.1")
twice("record", "add", "www", zone, "A", "192.0.2.2")
twice("record", "add", "@", zone, "MX", "10 mail.cli.test.")
twice("record", "add", "text", zone, "TXT", '"v=spf1 -all"')
twice("record", "disable", "www", zone, "A", "192.0.2.2")
run("record", "replace", "www", zone, "A", "192.0.2.9")
twice("record", "delete", "text", zone, "TXT", '"v=spf1 -all"')
exported = json.dumps(run("record", "export", zone))
assert "192.0.2.9" in exported and "spf1" not in exported, exported
twice("metadata", "add", zone, "ALSO-NOTIFY", "192.0.2.53")
twice("metadata", "add", zone, "X-Owner", "me")
twice("metadata", "delete", zone, "X-Owner")
twice("tsigkey", "add", "cli-key", "hmac-sha256", "-s", "AAAAAAAAAAAAAAAAAAAAAA==")
twice("tsigkey", "delete", "cli-key")
twice("zone", "config", zone, "--kind", "native", "--account", "dept")
run("zone", "rectify", zone)
run("zone", "flush-cache", zone)
assert "cli.test." in json.dumps(run("zone", "list"))
twice("zone", "delete", zone, "-f")
