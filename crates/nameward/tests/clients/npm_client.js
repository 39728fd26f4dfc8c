// Creates, changes and deletes a zone with @firstdorsal/powerdns-api, which sends its changes in parallel.
const assert = require("assert");
const [, , modules, url, key] = process.argv;
const { PowerdnsClient } = require(modules + "/@firstdorsal/powerdns-api");
const client = new PowerdnsClient(url + "/api/v1/servers/localhost", key);
(async () => {
    const zone = "npm-client.org";
    assert(await client.createZone(zone));
    const names = Array.from({ length: 30 }, (_, number) => `h${number}.${zone}`);
    const records = names.map((name, number) => ({ name, type: "A", ttl: 60, content: [`192.0.2.${number}`] }));
    records.push({ name: `text.${zone}`, type: "TXT", ttl: 60, content: ['"a;b"', `"${"x".repeat(300)}"`] });
    assert((await client.setRecords(records)).every(done => done === true));
    const rrsets = await client.getZone(zone);
    for (const record of records) {
        const rrset = rrsets.find(one => one.name === record.name + "." && one.type === record.type);
        assert(rrset, record.name);
        assert.deepStrictEqual(rrset.records.map(one => one.content).sort(), [...record.content].sort());
    }
    assert((await client.getZones()).some(one => one.name === zone + "."));
    assert((await client.search({ query: "h7*", max: 10 })).length > 0);
    assert(await client.deleteRecords([{ name: names[0], type: "A" }]));
    assert(!(await client.getZone(zone)).some(one => one.name === names[0] + "."));
    assert(await client.deleteZone(zone));
    assert(!(await client.getZones()).some(one => one.name === zone + "."));
})().catch(error => {
    console.error(error);
    process.exit(1);
});
