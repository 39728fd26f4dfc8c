"""Creates, lists, updates and deletes records with lexicon, as certificate clients do."""
import sys

from lexicon.client import Client
from lexicon.config import ConfigResolver

_, url, key, zone = sys.argv


def client():
    config = {
        "provider_name": "powerdns",
        "domain": zone,
        "ttl": 60,
        "powerdns": {"auth_token": key, "pdns_server": url, "pdns_server_id": "localhost"},
    }
    return Client(ConfigResolver().with_dict(config))


name = f"_acme-challenge.{zone}"
with client() as operations:
    assert operations.create_record("TXT", name, "first")
    assert operations.create_record("TXT", name, "second")
    assert operations.create_record("CNAME", f"alias.{zone}", f"www.{zone}")
with client() as operations:
    found = sorted(record["content"] for record in operations.list_records("TXT", name))
    assert found == ["first", "second"], found
    # The same again is no new record.
    assert operations.create_record("TXT", name, "second")
with client() as operations:
    assert len(operations.list_records("TXT", name)) == 2
    assert operations.delete_record(None, "TXT", name, "first")
with client() as operations:
    found = operations.list_records("TXT", name)
    assert [record["content"] for record in found] == ["second"], found
    assert operations.update_record(found[0]["id"], "TXT", name, "third")
with client() as operations:
    found = [record["content"] for record in operations.list_records("TXT", name)]
    assert found == ["third"], found
    assert operations.delete_record(None, "TXT", name)
with client() as operations:
    assert operations.list_records("TXT", name) == []
