"""Syncs a zone with octodns-sync: created, changed, and no change the second time."""
import os
import subprocess
import sys
from pathlib import Path

work, host, port, key = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
(work / "config").mkdir()
(work / "sync.yaml").write_text(f"""
providers:
  files: {{class: octodns.provider.yaml.YamlProvider, directory: {work}/config, default_ttl: 300, enforce_order: false}}
  server: {{class: octodns_powerdns.PowerDnsProvider, host: {host}, port: {port}, api_key: {key}, notify: true}}
zones:
  octo.test.: {{sources: [files], targets: [server]}}
""")
LONG = "k=" + "x" * 400


def zone(text):
    (work / "config" / "octo.test.yaml").write_text(text)


def sync(expects_change):
    program = Path(sys.executable).parent / "octodns-sync"
    for arguments in ([], ["--doit", "--force"]):
        command = [program, f"--config-file={work}/sync.yaml", *arguments]
        run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
        output = run.stdout + run.stderr
        assert run.returncode == 0, output
        assert ("No changes were planned" in output) != expects_change, output


RECORDS = f"""
'':
  - {{type: NS, values: [ns1.octo.test., ns2.octo.test.]}}
  - {{type: MX, values: [{{exchange: mail.octo.test., preference: 10}}]}}
  - {{type: CAA, values: [{{flags: 0, tag: issue, value: ca.example}}]}}
  - {{type: TXT, values: ['v=spf1 -all', 'semi\\;colon', '{LONG}']}}
www: {{type: A, values: [192.0.2.1, 192.0.2.2]}}
six: {{type: AAAA, value: '2001:db8::1'}}
alias: {{type: CNAME, value: www.octo.test.}}
_sip._tcp: {{type: SRV, values: [{{priority: 1, weight: 2, port: 5060, target: www.octo.test.}}]}}
"""
zone(RECORDS)
sync(expects_change=True)
sync(expects_change=False)
zone(RECORDS.replace("192.0.2.2", "192.0.2.3").replace("six:", "seven:"))
sync(expects_change=True)
sync(expects_change=False)
