//! Objects of PowerDNS for records: a resource record (`newDRR`, and what `resolve` returns), a record of a message
//! (`newDR`), a record type (`newQType`).

use std::net::{IpAddr, SocketAddr};

use mlua::{
    IntoLua, Lua, MetaMethod, UserData, UserDataFields, UserDataMethods, UserDataRef, Value,
};
use nameward_wire::text::Fields;
use nameward_wire::{Class, Name, Type, rdata};

use super::budget;
use super::functions::ScriptNames;
use super::objects::{DnsName, ScriptAddress};

/// The number of a zone that is not known.
pub(super) const UNKNOWN_DOMAIN: i64 = -1;

pub(super) fn install(names: &ScriptNames<'_>) -> mlua::Result<()> {
    names.function("newDRR", new_resource_record)?;
    names.function("newDR", new_message_record)?;
    names.function("newQType", |_, text: String| {
        let number = text.strip_prefix('#').and_then(|text| text.parse().ok());
        let rtype = number.or_else(|| Type::from_text(text.as_bytes()).map(|rtype| rtype.0));
        let unknown = || mlua::Error::runtime(format!("unknown record type {text:?}"));
        rtype
            .map(|rtype| RecordType(Type(rtype)))
            .ok_or_else(unknown)
    })
}

/// Reads a record type that a script has as a number, as text or as an object.
pub(super) fn type_of(value: &Value) -> mlua::Result<Type> {
    let number = match value {
        Value::String(text) => Type::from_text(&text.as_bytes()).map(|rtype| rtype.0),
        Value::Number(number) => Some(*number as u16),
        Value::Integer(number) => u16::try_from(*number).ok(),
        Value::UserData(object) => Some(object.borrow::<RecordType>()?.0.0),
        _ => None,
    };
    number
        .map(Type)
        .ok_or_else(|| mlua::Error::runtime("unknown record type"))
}

/// Returns record data as text. Names have their final dot.
pub(super) fn text_of(rtype: Type, data: &[u8]) -> String {
    let mut text = String::new();
    let _ = rdata::write_text(rtype, data, &mut text);
    text
}

/// Reads record data from text; names are absolute, with or without the final dot.
fn data_of(rtype: Type, text: &[u8]) -> mlua::Result<Vec<u8>> {
    budget::charge(text.len())?;
    let mut data = Vec::new();
    let root = Name::from_valid_wire(&[0]);
    rdata::parse_text(rtype, &mut Fields::new(text), root, &mut data).map_err(|_| {
        let text = String::from_utf8_lossy(text);
        mlua::Error::runtime(format!("invalid {rtype} record data {text:?}"))
    })?;
    Ok(data)
}

/// A record with its properties in a zone (`DNSResourceRecord`).
#[derive(Debug, Clone)]
pub(super) struct ResourceRecord {
    pub(super) name: DnsName,
    pub(super) rtype: Type,
    pub(super) ttl: u32,
    pub(super) data: Vec<u8>,
    pub(super) domain_id: i64,
    pub(super) is_authoritative: bool,
}

type ResourceRecordFields = (
    UserDataRef<DnsName>,
    Value,
    u32,
    mlua::LuaString,
    Option<i64>,
    Option<Value>,
);

fn new_resource_record(
    _: &Lua,
    (name, rtype, ttl, content, domain_id, auth): ResourceRecordFields,
) -> mlua::Result<ResourceRecord> {
    let rtype = type_of(&rtype)?;
    Ok(ResourceRecord {
        name: *name,
        rtype,
        ttl,
        data: data_of(rtype, &content.as_bytes())?,
        domain_id: domain_id.unwrap_or(UNKNOWN_DOMAIN),
        is_authoritative: match auth {
            None | Some(Value::Nil) => true,
            Some(Value::Boolean(is_so)) => is_so,
            Some(other) => other.as_f64() != Some(0.0),
        },
    })
}

impl UserData for ResourceRecord {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("toString", |_, this, ()| {
            Ok(text_of(this.rtype, &this.data))
        });
        // As in the database of PowerDNS: a name at the end has no final dot.
        methods.add_method("content", |_, this, ()| {
            let text = text_of(this.rtype, &this.data);
            Ok(text.strip_suffix('.').map(str::to_owned).unwrap_or(text))
        });
        for name in ["qname", "wildcardName"] {
            methods.add_method(name, |_, this, ()| Ok(this.name));
        }
        methods.add_method("ttl", |_, this, ()| Ok(this.ttl));
        methods.add_method("qtype", |_, this, ()| Ok(this.rtype.0));
        methods.add_method("qclass", |_, _, ()| Ok(Class::IN.0));
        methods.add_method("domainId", |_, this, ()| Ok(this.domain_id));
        methods.add_method("auth", |_, this, ()| Ok(this.is_authoritative));
        methods.add_method("disabled", |_, _, ()| Ok(false));
        for name in ["lastModified", "signttl", "scopeMask"] {
            methods.add_method(name, |_, _, ()| Ok(0));
        }
    }
}

/// A record of a message (`DNSRecord`).
#[derive(Debug, Clone)]
struct MessageRecord {
    name: DnsName,
    rtype: Type,
    ttl: u32,
    data: Vec<u8>,
    section: u8,
}

fn new_message_record(
    _: &Lua,
    (name, rtype, ttl, content, section): (
        UserDataRef<DnsName>,
        Value,
        u32,
        mlua::LuaString,
        Option<u8>,
    ),
) -> mlua::Result<MessageRecord> {
    let rtype = type_of(&rtype)?;
    Ok(MessageRecord {
        name: *name,
        rtype,
        ttl,
        data: data_of(rtype, &content.as_bytes())?,
        section: section.unwrap_or(1),
    })
}

impl MessageRecord {
    fn address(&self) -> Option<IpAddr> {
        match self.rtype {
            Type::A => Some(IpAddr::from(*self.data.first_chunk::<4>()?)),
            Type::AAAA => Some(IpAddr::from(*self.data.first_chunk::<16>()?)),
            _ => None,
        }
    }
}

impl UserData for MessageRecord {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("name", |_, this| Ok(this.name));
        fields.add_field_method_get("type", |_, this| Ok(this.rtype.0));
        fields.add_field_method_get("ttl", |_, this| Ok(this.ttl));
        fields.add_field_method_get("place", |_, this| Ok(this.section));
        fields.add_field_method_set("name", |_, this, name: UserDataRef<DnsName>| {
            this.name = *name;
            Ok(())
        });
        fields.add_field_method_set("ttl", |_, this, ttl| {
            this.ttl = ttl;
            Ok(())
        });
        fields.add_field_method_set("place", |_, this, section| {
            this.section = section;
            Ok(())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("getContent", |_, this, ()| {
            Ok(text_of(this.rtype, &this.data))
        });
        methods.add_method("getCA", |lua, this, ()| match this.address() {
            Some(address) => ScriptAddress(SocketAddr::new(address, 0)).into_lua(lua),
            None => Ok(Value::Nil),
        });
        methods.add_method_mut("changeContent", |_, this, content: mlua::LuaString| {
            this.data = data_of(this.rtype, &content.as_bytes())?;
            Ok(())
        });
    }
}

/// A record type (`QType`).
#[derive(Debug, Clone, Copy)]
struct RecordType(Type);

impl UserData for RecordType {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("getCode", |_, this, ()| Ok(this.0.0));
        methods.add_method("getName", |_, this, ()| Ok(this.0.to_string()));
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.0.to_string()));
        methods.add_meta_method(MetaMethod::Eq, |_, this, other: UserDataRef<RecordType>| {
            Ok(this.0 == other.0)
        });
    }
}
