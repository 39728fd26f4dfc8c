//! Scripts run as for a query: results, isolation, budgets, hostile code.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use nameward_wire::{Name, NameBuf, Type, rdata};

use super::{
    FoundRecords, NeededRecords, ScriptAnswer, ScriptClient, ScriptFailure, ScriptQuery, run_script,
};
use crate::{ScriptRules, Steering};

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::from_valid_wire(&[0])).expect("valid name")
}

fn query(client: &str, qname: &str) -> ScriptQuery {
    let client: IpAddr = client.parse().expect("valid address");
    ScriptQuery {
        name: name(qname),
        zone: name("example.org."),
        zone_id: 7,
        client: ScriptClient {
            address: SocketAddr::new(client, 5353),
            local: None,
            subnet: None,
        },
        is_stream: false,
        dnssec_ok: false,
        udp_payload: 1232,
        header: [0; 12],
    }
}

fn rdata_of(rtype: Type, code: &str) -> Vec<u8> {
    let mut data = rtype.0.to_be_bytes().to_vec();
    for string in code.as_bytes().chunks(255) {
        data.push(string.len() as u8);
        data.extend_from_slice(string);
    }
    data
}

fn run_with(
    steering: &Arc<Steering>,
    rtype: Type,
    code: &str,
    facts: &[FoundRecords],
) -> ScriptAnswer {
    let query = query("192.0.2.53", "www.example.org.");
    run_script(steering, &rdata_of(rtype, code), (&query, facts), &mut 0)
}

/// Returns the rules of a server with the usual limit.
const LIMITED: ScriptRules = ScriptRules {
    is_enabled: true,
    is_shared: false,
    instructions_max: 1000,
};

fn limited() -> Arc<Steering> {
    let steering = Steering::default();
    steering.set_script_settings(LIMITED);
    Arc::new(steering)
}

fn run(rtype: Type, code: &str) -> ScriptAnswer {
    run_with(&limited(), rtype, code, &[])
}

/// Returns the texts of the records that a script computes.
fn texts(rtype: Type, code: &str) -> Vec<String> {
    match run(rtype, code) {
        ScriptAnswer::Records(found, records) => {
            assert_eq!(found, rtype);
            records.iter().map(|data| text(rtype, data)).collect()
        }
        other => panic!("{code}: {other:?}"),
    }
}

fn text(rtype: Type, data: &[u8]) -> String {
    let mut text = String::new();
    rdata::write_text(rtype, data, &mut text).expect("a string takes everything");
    text
}

fn failure(code: &str) -> ScriptFailure {
    match run(Type::TXT, code) {
        ScriptAnswer::Failed(failure) => failure,
        other => panic!("{code}: {other:?}"),
    }
}

#[test]
fn texts_numbers_and_lists_are_records() {
    assert_eq!(texts(Type::A, "'192.0.2.1'"), ["192.0.2.1"]);
    assert_eq!(
        texts(Type::A, "{'192.0.2.2', '192.0.2.1', '192.0.2.2'}"),
        ["192.0.2.1", "192.0.2.2"]
    );
    assert_eq!(texts(Type::TXT, "1234"), ["\"1234\""]);
    assert_eq!(texts(Type::TXT, "'hello world'"), ["\"hello world\""]);
    assert_eq!(
        texts(Type::CNAME, "'www.example.net'"),
        ["www.example.net."]
    );
    assert_eq!(
        texts(Type::MX, "'10 mx.example.net'"),
        ["10 mx.example.net."]
    );
    assert_eq!(texts(Type::A, "{}"), [""; 0]);
    assert_eq!(texts(Type::TXT, ";local a = 1 return a + 1"), ["\"2\""]);
}

#[test]
fn other_results_fail() {
    assert_eq!(failure("nil"), ScriptFailure::Kind("nil"));
    assert_eq!(failure("true"), ScriptFailure::Kind("boolean"));
    assert_eq!(failure("qname"), ScriptFailure::Kind("userdata"));
    assert!(matches!(failure("nosuch()"), ScriptFailure::Error(_)));
    assert!(matches!(failure("pickrandom({})"), ScriptFailure::Error(_)));
    assert!(matches!(failure("this is bad("), ScriptFailure::Syntax(_)));
    let bad = run(Type::A, "'not an address'");
    let expected = ScriptFailure::Result(Type::A, "not an address".into());
    assert_eq!(bad, ScriptAnswer::Failed(expected));
}

#[test]
fn variables_describe_the_query() {
    let code = "table.concat({qname:toString(), zone:toString(), who:toStringWithPort(), bestwho:toString(), \
                tostring(ecswho), zoneid, ednsPKTSize, tostring(tcp), tostring(dnssecOK), tostring(dh:getRD())}, ' ')";
    assert_eq!(
        texts(Type::TXT, code),
        [
            "\"www.example.org. example.org. 192.0.2.53:5353 192.0.2.53 nil 7 1232 false false false\""
        ]
    );
}

#[test]
fn nothing_that_a_script_sets_outlives_its_run() {
    assert_eq!(texts(Type::TXT, ";leak = 1 return 'set'"), ["\"set\""]);
    assert_eq!(texts(Type::TXT, "tostring(leak)"), ["\"nil\""]);
    for code in [
        ";string.upper = nil return 'x'",
        ";rawset(string, 'upper', 1) return 'x'",
        ";pdns.A = 5 return 'x'",
        ";getmetatable('').__index = {} return 'x'",
        ";setmetatable(string, {}) return 'x'",
        ";table.insert(math, 1) return 'x'",
    ] {
        assert!(matches!(failure(code), ScriptFailure::Error(_)), "{code}");
    }
    assert_eq!(texts(Type::TXT, "('a'):upper()"), ["\"A\""]);
}

#[test]
fn a_shared_state_keeps_values_set_by_scripts() {
    let steering = Arc::new(Steering::default());
    steering.set_script_settings(ScriptRules {
        is_shared: true,
        ..LIMITED
    });
    let code = ";count = (count or 0) + 1 return tostring(count)";
    run_with(&steering, Type::TXT, code, &[]);
    let second = run_with(&steering, Type::TXT, code, &[]);
    assert_eq!(
        second,
        ScriptAnswer::Records(Type::TXT, vec![b"\x012".to_vec()])
    );
}

#[test]
fn files_processes_and_code_are_out_of_reach() {
    for code in [
        "os.execute('true')",
        "os.getenv('HOME')",
        "os.exit()",
        "io.open('/etc/passwd')",
        "require('os')",
        "loadstring('return 1')()",
        "load('return 1')()",
        "dofile('/etc/passwd')",
        "debug.getregistry()",
        "getfenv(0)",
        ";setfenv(1, {}) return 'x'",
        "collectgarbage('collect')",
        "string.dump(function() end)",
        "newproxy(true)",
        "coroutine.wrap(function() end)()",
    ] {
        assert!(matches!(failure(code), ScriptFailure::Error(_)), "{code}");
    }
}

#[test]
fn hostile_scripts_end_within_their_budget_and_leave_a_working_interpreter() {
    let loops = [
        ";while true do end",
        ";while true do pcall(function() while true do end end) end",
        ";local function f() return pcall(f) end while true do f() end",
        ";local function f() pcall(f) pcall(f) end f() return 'x'",
        ";repeat local ok = pcall(error, 'x') until false",
        ";string.find(('a'):rep(50), ('a*'):rep(40) .. 'b') return 'x'",
        ";(('a'):rep(30000)):find(('a?'):rep(30) .. 'b') return 'x'",
        ";local s = ('a'):rep(200000) for i = 1, 100 do s:find(('a'):rep(100000) .. 'b', 1, true) end return 'x'",
        ";local t = table.create(60000, 1) for i = 1, 900 do table.sort(t) end return 'x'",
        ";for i = 1, 1e9 do end return 'x'",
        ";local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x",
        ";for k in function() return 1 end do end",
    ];
    for code in loops {
        let failure = failure(code);
        let is_ended = matches!(
            failure,
            ScriptFailure::Instructions(1000) | ScriptFailure::Error(_)
        );
        assert!(is_ended, "{code}: {failure:?}");
    }
    let sizes = [
        "('x'):rep(600000000)",
        ";local s = 'x' while true do s = s .. s end",
        ";local t = {} for i = 1, 900 do t[i] = ('x'):rep(100000 + i) end return 'x'",
        "table.create(100000000, 1)",
        ";local t = {} for i = 1, 900 do local s = ('y'):rep(100000 + i) end return 'x'",
    ];
    for code in sizes {
        let failure = failure(code);
        let is_ended = matches!(failure, ScriptFailure::Memory(_) | ScriptFailure::Error(_));
        assert!(is_ended, "{code}: {failure:?}");
        assert_eq!(texts(Type::A, "'192.0.2.1'"), ["192.0.2.1"], "after {code}");
    }
}

#[test]
fn the_budget_is_configurable() {
    let steering = limited();
    let code = ";local n = 0 for i = 1, 5000 do n = n + 1 end return tostring(n)";
    let result = run_with(&steering, Type::TXT, code, &[]);
    assert_eq!(
        result,
        ScriptAnswer::Failed(ScriptFailure::Instructions(1000))
    );
    steering.set_script_settings(ScriptRules {
        instructions_max: 0,
        ..LIMITED
    });
    let result = run_with(&steering, Type::TXT, code, &[]);
    assert_eq!(
        result,
        ScriptAnswer::Records(Type::TXT, vec![b"\x045000".to_vec()])
    );
}

#[test]
fn included_scripts_and_records_are_needs_until_they_are_known() {
    let steering = limited();
    let need = NeededRecords::Records(name("config.example.org."), Type::LUA);
    let code = ";include('config') return f()";
    let first = run_with(&steering, Type::A, code, &[]);
    assert_eq!(first, ScriptAnswer::Needs(Box::new(need.clone())));
    let caught = run_with(
        &steering,
        Type::A,
        ";pcall(include, 'config') return '192.0.2.1'",
        &[],
    );
    assert_eq!(caught, ScriptAnswer::Needs(Box::new(need.clone())));
    let known = FoundRecords {
        need,
        records: vec![rdata_of(Type::LUA, "function f() return '192.0.2.77' end")],
        ttl: 0,
    };
    let second = run_with(&steering, Type::A, code, std::slice::from_ref(&known));
    assert_eq!(
        second,
        ScriptAnswer::Records(Type::A, vec![vec![192, 0, 2, 77]])
    );
    let absent = FoundRecords {
        records: Vec::new(),
        ..known
    };
    let code = ";include('config') return '192.0.2.1'";
    let none = run_with(&steering, Type::A, code, &[absent]);
    assert_eq!(
        none,
        ScriptAnswer::Records(Type::A, vec![vec![192, 0, 2, 1]])
    );

    let need = NeededRecords::Records(name("ns.example.org."), Type::A);
    let code = "dblookup('ns.example.org', pdns.A)[1]";
    assert_eq!(
        run_with(&steering, Type::A, code, &[]),
        ScriptAnswer::Needs(Box::new(need.clone()))
    );
    let known = FoundRecords {
        need,
        records: vec![vec![192, 0, 2, 9]],
        ttl: 0,
    };
    let found = run_with(&steering, Type::A, code, &[known]);
    assert_eq!(
        found,
        ScriptAnswer::Records(Type::A, vec![vec![192, 0, 2, 9]])
    );
}

#[test]
fn weighted_choices_keep_their_shares() {
    crate::random::seed(20_230_101);
    let mut counts = [0u32; 3];
    for _ in 0..20_000 {
        let code = "pickwrandom({{10, '192.0.2.0'}, {60, '192.0.2.1'}, {30, '192.0.2.2'}})";
        match run(Type::A, code) {
            ScriptAnswer::Records(_, records) => counts[usize::from(records[0][3])] += 1,
            other => panic!("{other:?}"),
        }
    }
    // Four standard deviations of the largest share are 278.
    for (count, share) in counts.into_iter().zip([2_000, 12_000, 6_000]) {
        assert!(count.abs_diff(share) < 280, "{counts:?}");
    }
    let sample = texts(
        Type::A,
        "pickrandomsample(2, {'192.0.2.0', '192.0.2.1', '192.0.2.2'})",
    );
    assert_eq!(sample.len(), 2);
}

#[test]
fn consistent_choices_ignore_order_and_other_weights() {
    let pick = |client: u32, list: &str| {
        let client = std::net::Ipv4Addr::from_bits(client).to_string();
        let query = query(&client, "www.example.org.");
        let data = rdata_of(Type::A, &format!("pickchashed({{{list}}})"));
        run_script(&limited(), &data, (&query, &[]), &mut 0)
    };
    let (mut moved, mut first) = (0, 0);
    for client in 0..2_000u32 {
        let client = client * 65_537;
        let before = pick(
            client,
            "{10, '192.0.2.1'}, {10, '192.0.2.2'}, {10, '192.0.2.3'}",
        );
        let reordered = pick(
            client,
            "{10, '192.0.2.3'}, {10, '192.0.2.1'}, {10, '192.0.2.2'}",
        );
        assert_eq!(before, reordered);
        let heavier = pick(
            client,
            "{20, '192.0.2.1'}, {10, '192.0.2.2'}, {10, '192.0.2.3'}",
        );
        let is_first = heavier == ScriptAnswer::Records(Type::A, vec![vec![192, 0, 2, 1]]);
        first += u32::from(is_first);
        if before != heavier {
            assert!(is_first, "only the heavier value gains clients");
            moved += 1;
        }
    }
    assert!((900..1_100).contains(&first), "half of the weight: {first}");
    assert!(
        (250..420).contains(&moved),
        "a sixth of the clients moves: {moved}"
    );
}
