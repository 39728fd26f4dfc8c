//! Variables about the query. Each is created when a script reads it: most scripts read none.

use std::net::SocketAddr;

use ipnet::IpNet;
use mlua::{IntoLua, Lua, Value};

use super::super::current::{CurrentRun, with_current};
use super::super::objects::{DnsName, QueryHeader, ScriptAddress, ScriptNetwork};
use super::ScriptNames;

pub(super) fn install(names: &ScriptNames<'_>) -> mlua::Result<()> {
    let metatable = names.lua.create_table()?;
    let index = names
        .lua
        .create_function(|lua, (_, name): (Value, mlua::LuaString)| {
            variable(lua, &name.as_bytes())
        })?;
    metatable.raw_set("__index", index)?;
    metatable.set_readonly(true);
    names.table.set_metatable(Some(metatable))
}

/// A variable before it is a value of the interpreter.
enum QueryVariable {
    Address(SocketAddr),
    Network(IpNet),
    Name(Box<DnsName>),
    Header([u8; 12]),
    Flag(bool),
    Number(f64),
    Nothing,
}

fn variable(lua: &Lua, name: &[u8]) -> mlua::Result<Value> {
    match with_current(|run| read(run, name))? {
        QueryVariable::Address(address) => ScriptAddress(address).into_lua(lua),
        QueryVariable::Network(network) => ScriptNetwork(network).into_lua(lua),
        QueryVariable::Name(name) => (*name).into_lua(lua),
        QueryVariable::Header(header) => QueryHeader(header).into_lua(lua),
        QueryVariable::Flag(flag) => Ok(Value::Boolean(flag)),
        QueryVariable::Number(number) => Ok(Value::Number(number)),
        QueryVariable::Nothing => Ok(Value::Nil),
    }
}

fn read(run: &mut CurrentRun, name: &[u8]) -> QueryVariable {
    let query = &run.query;
    match name {
        b"qname" => QueryVariable::Name(Box::new(DnsName(query.name))),
        b"zone" => QueryVariable::Name(Box::new(DnsName(query.zone))),
        b"zoneid" => QueryVariable::Number(query.zone_id as f64),
        // The resolver's own address does not depend on the client behind it.
        b"who" => QueryVariable::Address(query.client.address),
        b"bestwho" => {
            let address = query.client.best_address();
            run.scope = if address.is_ipv4() { 32 } else { 128 };
            QueryVariable::Address(SocketAddr::new(address, 0))
        }
        b"ecswho" => match query.client.subnet {
            Some(subnet) => {
                run.scope = subnet.max_prefix_len();
                QueryVariable::Network(subnet)
            }
            None => QueryVariable::Nothing,
        },
        b"localwho" => match query.client.local {
            Some(local) => QueryVariable::Address(local),
            None => QueryVariable::Nothing,
        },
        b"tcp" => QueryVariable::Flag(query.is_stream),
        b"dnssecOK" => QueryVariable::Flag(query.dnssec_ok),
        b"ednsPKTSize" => QueryVariable::Number(f64::from(query.udp_payload)),
        b"dh" => QueryVariable::Header(query.header),
        _ => QueryVariable::Nothing,
    }
}
