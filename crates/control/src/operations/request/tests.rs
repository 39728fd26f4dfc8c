//! Requests as the control socket reads them.

use super::*;
use nameward_zone::ZoneKind;

fn read(text: &str) -> Result<OperationRequest, serde_json::Error> {
    serde_json::from_str(text)
}

#[test]
fn requests_are_plain_json() {
    assert_eq!(
        read(r#"{"operation":"status"}"#).unwrap(),
        OperationRequest::Status
    );
    let set = read(
        r#"{"operation":"record_set","zone":"a.test","name":"www","type":"A","ttl":60,"content":["192.0.2.1"]}"#,
    );
    let OperationRequest::RecordSet(template) = set.unwrap() else {
        panic!("record_set is a RecordSet");
    };
    assert_eq!((template.rtype.as_str(), template.ttl), ("A", 60));
    let create = read(r#"{"operation":"zone_create","zone":"a.test","name_servers":["b.test"]}"#);
    let OperationRequest::ZoneCreate(template) = create.unwrap() else {
        panic!("zone_create is a ZoneCreate");
    };
    assert_eq!(
        (template.kind, template.ttl),
        (ZoneKind::Native.into(), 3600)
    );
}

#[test]
fn misspelt_fields_and_operations_are_errors() {
    for text in [
        r#"{"operation":"zone_show","zon":"a.test"}"#,
        r#"{"operation":"zone_delete","zone":"a.test","force":true}"#,
        r#"{"operation":"zone_create","zone":"a.test","color":"red"}"#,
        r#"{"operation":"explode"}"#,
        r#"{"operation":"record_set","zone":"a.test","name":"www","type":"A","ttl":-1,"content":[]}"#,
        "[]",
        "",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn a_request_round_trips() {
    let request = ControlRequest {
        message: None,
        config: Some(ConfigFile {
            path: "/etc/a b.toml".into(),
            identity: (1, u64::MAX),
        }),
        request: OperationRequest::RecordDelete {
            zone: "a.test".into(),
            name: "two words\n".into(),
            rtype: None,
            content: vec!["\"é\"".into()],
        },
    };
    let line = serde_json::to_string(&request).unwrap();
    assert!(!line.contains('\n'), "{line}");
    assert_eq!(
        serde_json::from_str::<ControlRequest>(&line).unwrap(),
        request
    );
}
