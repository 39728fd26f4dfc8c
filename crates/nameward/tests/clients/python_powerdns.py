"""Creates, changes, backs up, deletes and restores a zone with python-powerdns."""
import sys

import powerdns

_, url, key, directory = sys.argv
client = powerdns.PDNSApiClient(api_endpoint=f"{url}/api/v1", api_key=key)
server = powerdns.PDNSEndpoint(client).servers[0]
assert server.sid == "localhost" and server.daemon_type == "authoritative", server
assert int(server.version.split(".")[0]) >= 4, server.version
assert any(item["name"] == "launch" for item in server.config)
texts = ['"a;b \\"c\\""', '"' + "x" * 300 + '"', '"gr\u00fcn"']
created = server.create_zone(
    name="python.test.",
    kind="Native",
    nameservers=["ns1.python.test.", "ns2.python.test."],
    rrsets=[powerdns.RRSet("www.python.test.", "A", [("192.0.2.1", False)], ttl=60)],
)
assert created.name == "python.test."
zone = server.get_zone("python.test.")
comment = powerdns.Comment("written by python", "me")
zone.create_records([
    powerdns.RRSet("www", "A", [("192.0.2.2", False), ("192.0.2.3", True)], comments=[comment]),
    powerdns.RRSet("text", "TXT", [(text, False) for text in texts]),
    powerdns.RRSet("mail", "MX", ["10 mx.python.test."]),
])
www = zone.get_record("www.python.test.")[0]
assert [(one["content"], one["disabled"]) for one in www["records"]] == [("192.0.2.2", False), ("192.0.2.3", True)], www
assert www["comments"][0]["content"] == "written by python", www
text = zone.get_record("text.python.test.")[0]
assert sorted(one["content"] for one in text["records"]) == sorted(texts), text
assert any(hit["object_type"] == "record" for hit in server.search("www.python*"))
zone.delete_records([powerdns.RRSet("mail", "MX", [])])
assert zone.get_record("mail.python.test.") == []
zone.backup(directory)
before = sorted(zone.records, key=lambda rrset: (rrset["name"], rrset["type"]))
server.delete_zone("python.test.")
assert server.get_zone("python.test.") is None
server.restore_zone(f"{directory}/python.test.json")
zone = server.get_zone("python.test.")
after = sorted(zone.records, key=lambda rrset: (rrset["name"], rrset["type"]))
strip = lambda rrsets: [rrset for rrset in rrsets if rrset["type"] != "SOA"]
assert strip(after) == strip(before), (before, after)
server.delete_zone("python.test.")
