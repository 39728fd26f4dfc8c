//! A client with its own address, for behaviour that depends on the client.

use super::{Message, Name, Opt, Question, Transport, encode_opt, encode_question, type_from_text};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Only a lost message takes this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Builds a query with EDNS.
pub fn question(id: u16, name: &str, rtype: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    let question = Question {
        name: Name::parse(name).expect("a test asks for a name"),
        rtype: type_from_text(rtype).expect("a test asks for a type"),
        class: 1,
    };
    encode_question(&mut message, &question);
    let opt = Opt {
        size: 1232,
        ..Opt::default()
    };
    encode_opt(&mut message, &opt);
    message
}

/// Queries a server from one address of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The source address of queries: 127.0.0.1, 127.0.0.2, ::1.
    pub source: IpAddr,
    /// The server they are sent to.
    pub server: SocketAddr,
}

impl Client {
    /// Creates a client whose address is given as text.
    pub fn new(source: &str, server: SocketAddr) -> Self {
        Client {
            source: source.parse().expect("a test gives an address"),
            server,
        }
    }

    /// Sends a message and returns the answer; `None` if a connection is closed without one.
    ///
    /// # Errors
    /// If a datagram is not answered.
    pub fn exchange(&self, transport: Transport, message: &[u8]) -> io::Result<Option<Message>> {
        let reply = match transport {
            Transport::Udp => {
                let socket = self.send(message)?;
                socket.set_read_timeout(Some(TIMEOUT))?;
                let mut buffer = vec![0; 65_535];
                let length = socket.recv(&mut buffer)?;
                buffer.truncate(length);
                buffer
            }
            Transport::Tcp => match self.over_tcp(message)? {
                Some(reply) => reply,
                None => return Ok(None),
            },
        };
        Message::read(&reply).map(Some).map_err(io::Error::other)
    }

    /// Sends a query.
    ///
    /// # Panics
    /// If it is not answered.
    pub fn ask(&self, transport: Transport, name: &str, rtype: &str) -> Message {
        let query = format!("{name} {rtype} over {transport} from {}", self.source);
        match self.exchange(transport, &question(7, name, rtype)) {
            Ok(Some(message)) => message,
            other => panic!("{query}: {other:?}"),
        }
    }

    /// Sends a datagram; an answer would arrive on the returned socket.
    pub fn send(&self, message: &[u8]) -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind(SocketAddr::new(self.source, 0))?;
        socket.connect(self.server)?;
        socket.send(message)?;
        Ok(socket)
    }

    fn over_tcp(&self, message: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let domain = Domain::for_address(self.server);
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(self.source, 0).into())?;
        socket.connect_timeout(&self.server.into(), TIMEOUT)?;
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT))?;
        let length = (message.len() as u16).to_be_bytes();
        let mut reply_length = [0; 2];
        let outcome = stream
            .write_all(&[&length, message].concat())
            .and_then(|()| stream.read_exact(&mut reply_length));
        match outcome {
            Ok(()) => {}
            Err(error) if is_closed(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut reply = vec![0; u16::from_be_bytes(reply_length).into()];
        stream.read_exact(&mut reply)?;
        Ok(Some(reply))
    }
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
